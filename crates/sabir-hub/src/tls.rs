//! TLS: a certificate and its key from files, which are read again when they change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::lock::locked;

/// How often connections make the hub look at the files.
const LOOK: Duration = Duration::from_secs(1);

/// A certificate and its key, as their files have them.
#[derive(Debug)]
pub struct Certificates {
    certificates: PathBuf,
    key: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    config: Arc<ServerConfig>,
    /// The files when they were last read, with success or without.
    seen: [Option<Stamp>; 2],
    looked: Instant,
}

/// Differs when a file was written or replaced.
type Stamp = (SystemTime, u64, u64);

impl Certificates {
    /// Reads a chain of certificates and a key, both in PEM.
    pub fn open(certificates: &Path, key: &Path) -> io::Result<Self> {
        let seen = [stamp(certificates), stamp(key)];
        let state = Mutex::new(State { config: read(certificates, key)?, seen, looked: Instant::now() });
        Ok(Self { certificates: certificates.to_owned(), key: key.to_owned(), state })
    }

    /// The configuration for a new connection. When the files changed and cannot be used, the last one stays, and `failed` is
    /// called once.
    pub(crate) fn current(&self, failed: impl FnOnce(String)) -> Arc<ServerConfig> {
        let mut state = locked(&self.state);
        if state.looked.elapsed() >= LOOK {
            state.looked = Instant::now();
            let seen = [stamp(&self.certificates), stamp(&self.key)];
            if seen != state.seen {
                state.seen = seen;
                match read(&self.certificates, &self.key) {
                    Ok(config) => state.config = config,
                    Err(error) => {
                        failed(format!("the changed certificate can't be used, and the one before is still served: {error}"));
                    }
                }
            }
        }
        Arc::clone(&state.config)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let file = std::os::unix::fs::MetadataExt::ino(&about);
    #[cfg(not(unix))]
    let file = 0;
    Some((about.modified().ok()?, about.len(), file))
}

/// Reads a chain of certificates and a key, both in PEM.
fn read(certificates: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(certificates, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| wrong(certificates, &error))?;
    Ok(Arc::new(config))
}
