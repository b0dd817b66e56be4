//! TLS certificates that are reloaded when their files change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::lock;

/// Minimum time between two checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A certificate chain and its key.
#[derive(Debug)]
pub struct Certificates {
    certificates: PathBuf,
    key: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    config: Arc<ServerConfig>,
    /// Versions of the files at the last attempt to load them.
    versions: [Option<FileVersion>; 2],
    checked: Instant,
}

/// Modification time, size and inode: differs if a file was written or replaced.
type FileVersion = (SystemTime, u64, u64);

impl Certificates {
    /// Loads a certificate chain and a key from PEM files.
    pub fn open(certificates: &Path, key: &Path) -> io::Result<Self> {
        let versions = [file_version(certificates), file_version(key)];
        let state = Mutex::new(State { config: load(certificates, key)?, versions, checked: Instant::now() });
        Ok(Self { certificates: certificates.to_owned(), key: key.to_owned(), state })
    }

    /// Configuration for a new connection. If changed files are unusable, the last one stays, and `on_error` is called once.
    pub(crate) fn current(&self, on_error: impl FnOnce(String)) -> Arc<ServerConfig> {
        let mut state = lock(&self.state);
        if state.checked.elapsed() >= CHECK_INTERVAL {
            state.checked = Instant::now();
            let versions = [file_version(&self.certificates), file_version(&self.key)];
            if versions != state.versions {
                state.versions = versions;
                match load(&self.certificates, &self.key) {
                    Ok(config) => state.config = config,
                    Err(error) => {
                        on_error(format!("cannot load the changed certificate; the previous one stays in use: {error}"));
                    }
                }
            }
        }
        Arc::clone(&state.config)
    }
}

fn file_version(path: &Path) -> Option<FileVersion> {
    let metadata = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some((metadata.modified().ok()?, metadata.len(), inode))
}

fn load(certificates: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let invalid = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| invalid(certificates, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| invalid(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| invalid(certificates, &error))?;
    Ok(Arc::new(config))
}
