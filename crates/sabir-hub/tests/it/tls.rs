//! TLS.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sabir_hub::Limits;
use sabir_hub::tls::Certificates;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{Running, Setup};

/// Connects with TLS and trusts only this certificate.
async fn connect(hub: &Running, certificate: &rcgen::Certificate) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(hub.address).await.expect("a connection");
    TlsConnector::from(Arc::new(config)).connect("localhost".try_into().expect("a name"), stream).await
}

#[tokio::test]
async fn changed_certificate_is_loaded_unless_it_is_unusable() {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let new = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let write = |made: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        std::fs::write(&certificate, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    };
    let (first, second, third) = (new(), new(), new());
    write(&first);
    let tls = Some(Certificates::open(&certificate, &key).expect("a certificate and its key"));
    let hub = Setup { tls, ..Setup::default() }.start().await;
    assert!(connect(&hub, &first.cert).await.is_ok());
    write(&second);
    let deadline = Instant::now() + Duration::from_secs(60);
    let until_served = async |made: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        while connect(&hub, &made.cert).await.is_err() {
            assert!(Instant::now() < deadline, "the new certificate is not served");
        }
    };
    until_served(&second).await;
    assert!(connect(&hub, &first.cert).await.is_err(), "the first one is not served any more");
    // With a key of another certificate, the hub keeps serving the previous one.
    std::fs::write(&certificate, third.cert.pem()).expect("written");
    let changed = Instant::now();
    while changed.elapsed() < Duration::from_secs(2) {
        assert!(connect(&hub, &second.cert).await.is_ok());
    }
    write(&third);
    until_served(&third).await;
}

#[tokio::test]
async fn tls_listener_does_not_answer_plain_http() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    assert!(Certificates::open(&key, &certificate).is_err(), "certificate and key are swapped");
    assert!(Certificates::open(&certificate, &folder.path().join("nothing")).is_err());
    let tls = Some(Certificates::open(&certificate, &key).expect("a certificate and its key"));
    let limits = Limits { request_timeout: Duration::from_millis(500), ..Limits::default() };
    let hub = Setup { limits, tls, ..Setup::default() }.start().await;

    let mut stream = connect(&hub, &made.cert).await.expect("a handshake");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.expect("an answer");
    assert!(reply.starts_with("HTTP/1.1 200") && reply.ends_with("ok\n"), "{reply}");

    // Without a TLS handshake there is no HTTP response.
    for beginning in [&b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], b""] {
        let mut plain = TcpStream::connect(hub.address).await.expect("a connection");
        plain.write_all(beginning).await.expect("sent");
        let mut reply = Vec::new();
        let _ = plain.read_to_end(&mut reply).await;
        assert!(!reply.starts_with(b"HTTP"), "{reply:?}");
    }
}
