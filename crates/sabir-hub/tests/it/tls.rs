//! The hub with a certificate.

use std::sync::Arc;
use std::time::Duration;

use sabir_hub::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::Setup;

#[tokio::test]
async fn with_a_certificate_nothing_goes_over_the_wire_that_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    assert!(sabir_hub::tls::read(&key, &certificate).is_err(), "the wrong way round");
    assert!(sabir_hub::tls::read(&certificate, &folder.path().join("nothing")).is_err());
    let tls = Some(sabir_hub::tls::read(&certificate, &key).expect("a certificate and its key"));
    let limits = Limits { patience: Duration::from_millis(500), ..Limits::default() };
    let hub = Setup { limits, tls, ..Setup::default() }.start().await;

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(hub.address).await.expect("a connection");
    let name = "localhost".try_into().expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.expect("an answer");
    assert!(reply.starts_with("HTTP/1.1 200") && reply.ends_with("ok\n"), "{reply}");

    // Who speaks without TLS, or says nothing, gets no answer of HTTP.
    for beginning in [&b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], b""] {
        let mut plain = TcpStream::connect(hub.address).await.expect("a connection");
        plain.write_all(beginning).await.expect("sent");
        let mut reply = Vec::new();
        let _ = plain.read_to_end(&mut reply).await;
        assert!(!reply.starts_with(b"HTTP"), "{reply:?}");
    }
}
