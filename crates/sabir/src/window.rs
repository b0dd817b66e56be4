//! The page for whoever sits here: its address, and a browser that shows it.

use std::net::SocketAddr;

use sabir_hub::OneTimeTokens;

use crate::failure::Failure;
use crate::print;

/// Where the page is, and the way in.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    pub(crate) tokens: OneTimeTokens,
    pub(crate) at: SocketAddr,
}

impl Window {
    /// An address that opens the page, once.
    fn address(&self) -> Result<String, Failure> {
        let token = self.tokens.issue();
        let token =
            token.ok_or_else(|| Failure::io("can't make an address", &std::io::Error::other("there is no randomness")))?;
        Ok(format!("http://{}/#token={token}", self.at))
    }

    /// Says where the page is, and shows it where there is a desktop. What is shown has an address of its own, so that the
    /// one that was said is still good.
    pub(crate) fn open(&self, browser: bool) -> Result<(), Failure> {
        print::note(&format!("the page is at {}", self.address()?));
        if browser && sabir_run::browser::has_desktop() && !sabir_run::browser::open(&self.address()?) {
            print::note("no browser could be opened; the address works in any on this machine");
        }
        Ok(())
    }

    /// Prints a new address whenever one was used: each is good once, and signs one browser in.
    pub(crate) async fn keep_telling(self) {
        let mut used = self.tokens.redeemed();
        while used.changed().await.is_ok() {
            let Ok(address) = self.address() else { return };
            print::note(&format!("web UI opened; for another browser: {address}"));
        }
    }
}
