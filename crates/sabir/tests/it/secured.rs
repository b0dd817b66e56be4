//! A shell and a hub over TLS, files that are brought, and a hub that is asked everything that its document allows.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use serde_json::{Value, json};

use crate::faults::proxy::{Act, Proxy, Unit};
use crate::faults::{kept, written};
use crate::hub::{Hub, start_at};
use crate::{sabir, stderr};

fn shell(home: &Path, address: &str, options: &[&str], prompt: &str) -> Command {
    let mut command = sabir();
    command.args(["shell", "--hub", address, "--session", "s"]).args(options).args(["--", "localexec", prompt]);
    for name in ["RUNNER_ADAPTER", "WS_URL", "AUTH_TOKEN", "SESSION_ID", "S3_BUCKET"] {
        command.env_remove(name);
    }
    command.env("SABIR_HOME", home);
    command
}

/// What a hub with a certificate answers.
fn get(address: &str, certificate: &rustls::pki_types::CertificateDer<'static>, path: &str) -> String {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut connection = rustls::ClientConnection::new(Arc::new(config), name).expect("a connection");
    let mut stream = TcpStream::connect(address).expect("a connection");
    let mut tls = rustls::Stream::new(&mut connection, &mut stream);
    write!(tls, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut reply = String::new();
    tls.read_to_string(&mut reply).expect("an answer");
    reply
}

#[test]
fn a_shell_speaks_tls_with_whom_it_trusts_and_with_nobody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let file = |name: &str| folder.path().join(name);
    fs::write(file("cert.pem"), made.cert.pem()).expect("written");
    fs::write(file("key.pem"), made.signing_key.serialize_pem()).expect("written");
    let path = |name: &str| file(name).to_str().expect("a path").to_owned();
    let (certificate, key) = (path("cert.pem"), path("key.pem"));
    let mut command =
        crate::hub::command(&file("hub"), "127.0.0.1:0", &["--open", "--tls-cert", &certificate, "--tls-key", &key]);
    command.stderr(Stdio::piped());
    let hub = crate::hub::started(command);
    let address = format!("wss://localhost:{}", hub.address.rsplit(':').next().expect("a port"));

    let stranger = shell(&file("stranger"), &address, &["--flush", "0s"], "echo hello").output().expect("it ends");
    assert_eq!(stranger.status.code(), Some(6), "{}", stderr(&stranger));
    assert!(get(&hub.address, made.cert.der(), "/v1/sessions").contains(r#""sessions":[]"#), "nothing came of that");

    let friend = shell(&file("friend"), &address, &["--flush", "60s", "--json"], "echo hello")
        .env("SSL_CERT_FILE", &certificate)
        .output()
        .expect("it ends");
    assert_eq!(friend.status.code(), Some(0), "{}", stderr(&friend));
    assert!(crate::stdout(&friend).contains("WebSocket"), "{}", crate::stdout(&friend));
    let reply = get(&hub.address, made.cert.der(), "/v1/sessions/s/log");
    for message in written(&file("friend"), "s") {
        assert!(reply.contains(&message), "{message}");
    }
    assert_eq!(hub.stop().1, Some(0));
}

/// Bytes of a hub's artifact.
fn artifact(hub: &Hub, digest: &str) -> String {
    let reply = hub.get(&format!("/v1/sessions/s/artifacts/{digest}"), "");
    assert!(reply.starts_with("HTTP/1.1 200"), "{}", &reply[..200.min(reply.len())]);
    reply.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

fn body(hub: &Hub, path: &str) -> Value {
    let reply = hub.get(path, "");
    serde_json::from_str(reply.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
}

#[test]
fn files_are_brought_to_the_hub_and_go_on_where_they_broke_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = start_at(&folder.path().join("hub"), "127.0.0.1:0", &["--open"]);
    let work = folder.path().join("work");
    fs::create_dir_all(work.join("dist")).expect("made");
    let mut large = String::new();
    for number in 0..1_200_000 {
        writeln!(large, "{number:08}").expect("a string takes everything");
    }
    fs::write(work.join("dist/large.txt"), &large).expect("written");
    fs::write(work.join("dist/small.txt"), "small").expect("written");
    fs::write(work.join("dist/empty.txt"), "").expect("written");
    let proxy = Proxy::to(&hub.address);
    let mut number = 0;
    proxy.rule(move |unit| {
        let Unit::Request { method: "PUT", .. } = unit else { return Act::Pass };
        number += 1;
        match number {
            // A piece breaks off in the middle; later one arrives, and nobody is told.
            2 => Act::Cut(3_000_000),
            3 => Act::LoseAnswer,
            _ => Act::Pass,
        }
    });
    let address = format!("ws://{}", proxy.address);
    let cwd = work.to_str().expect("a path");
    let options = ["--artifact", "dist/*.txt", "--cwd", cwd, "--flush", "60s"];
    let output: Output = shell(&folder.path().join("home"), &address, &options, "echo done").output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(proxy.faults() >= 2, "{}", proxy.faults());
    let list = body(&hub, "/v1/sessions/s/artifacts");
    let artifacts = list["artifacts"].as_array().expect("a list");
    let mut names: Vec<&str> = artifacts.iter().filter_map(|artifact| artifact["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["dist/empty.txt", "dist/large.txt", "dist/small.txt"]);
    for known in artifacts {
        assert_eq!(known["complete"], true, "{known}");
        let bytes = artifact(&hub, known["digest"].as_str().expect("a digest"));
        let expected = fs::read_to_string(work.join(known["name"].as_str().expect("a name"))).expect("a file");
        assert!(bytes == expected, "{known}: {} bytes", bytes.len());
    }
    let told = kept(&hub, "s", "").iter().filter(|message| message.contains(r#""type":"artifact""#)).count();
    assert_eq!(told, 3);
    assert_eq!(hub.stop().1, Some(0));
}

/// The program that asks.
fn schemathesis() -> Option<PathBuf> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let python = sabir_test_support::python::environment(cache, "schemathesis", &["schemathesis>=4.1,<5"], "schemathesis")?;
    Some(python.with_file_name("schemathesis"))
}

#[test]
fn nothing_that_the_document_allows_or_forbids_is_an_error_of_the_hub() {
    let Some(program) = schemathesis() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let hub = start_at(&folder.path().join("hub"), "127.0.0.1:0", &["--open", "--max-rate", "1000000"]);
    // There is something to find.
    let home = folder.path().join("home");
    let output = shell(&home, &format!("ws://{}", hub.address), &[], "echo hello").output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut command = Command::new(program);
    command
        .args(["run", &format!("http://{}/openapi.json", hub.address)])
        .args(["--checks", "not_a_server_error", "--max-examples", "10", "--seed", "5", "--workers", "1"])
        .args(["--phases", "examples,coverage,fuzzing", "--no-color", "--request-timeout", "20"])
        // These go on for ever, or for as long as they are told to.
        .args(
            ["watchSessions", "watchSession", "watchTimeline", "runnerCommands"]
                .iter()
                .flat_map(|name| ["--exclude-operation-id", name]),
        )
        .env("SCHEMATHESIS_HOOKS", "openapi_bodies")
        .env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(folder.path());
    let output = command.output().expect("it ends");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(output.status.success(), "{said}");
    // It has asked, and the hub is well.
    let asked = hub.get("/metrics", "");
    let requests = asked.lines().find_map(|line| line.strip_prefix("sabir_hub_requests_total ")).expect("a figure");
    assert!(requests.parse::<u64>().expect("a number") > 300, "{requests} requests: {said}");
    assert!(asked.lines().any(|line| line == "sabir_hub_trouble_total 0"), "{asked}");
    assert_eq!(body(&hub, "/v1/sessions/s")["overview"]["phase"], json!("success"));
    assert_eq!(hub.stop().1, Some(0));
}
