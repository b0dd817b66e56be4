//! `sabir tui`: runs in the terminal, live.

use std::io::IsTerminal as _;
use std::sync::Arc;

use sabir_store::Home;
use sabir_tui::source::hub::Hub;
use sabir_tui::source::local::Local;
use sabir_tui::terminal::Options;

use super::shell::exposed;
use crate::cli::TuiArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{past, print};

pub(crate) fn run(arguments: TuiArguments) -> Result<Exit, Failure> {
    if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
        return Err(
            Failure::usage("there is no terminal to draw on").hint("`sabir ls` and `sabir show` write to pipes and files")
        );
    }
    let source: Arc<dyn sabir_tui::Source> = match &arguments.hub {
        Some(address) => {
            let token = arguments.token.or_else(|| std::env::var("SABIR_TOKEN").ok().filter(|token| !token.is_empty()));
            let hub = Hub::new(address, token);
            if hub.exposes_token() && !arguments.insecure {
                return Err(exposed(&hub.host()).hint("use https://, or --insecure where the network is trusted"));
            }
            Arc::new(hub)
        }
        None => Arc::new(local()),
    };
    let options = Options { colours: print::color(), open: arguments.id };
    sabir_tui::run(source, options).map_err(|error| Failure::io("the terminal can't be used", &error))?;
    Ok(Exit::Completed)
}

/// What ran on this machine. What can't be read is left out, as there is nowhere to say so.
fn local() -> Local {
    let home = Home::find().ok();
    let index = home.as_ref().map(Home::index);
    Local::new(Box::new(move || {
        sabir_store::past::load(&past::places(), home.as_ref(), index.as_deref(), |_| true, &mut |_, _| {})
    }))
}
