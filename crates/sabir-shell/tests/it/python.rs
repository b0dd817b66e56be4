//! Programs from the Python Package Index, each in an environment of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The Python of an environment that has these packages; `None`, with a word, where it can't be had. It is made once and kept.
#[allow(clippy::print_stderr)]
pub(crate) fn environment(name: &str, packages: &[&str], imports: &str) -> Option<PathBuf> {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = temporary.join(name);
    let python = folder.join("bin/python");
    let run = |program: &Path, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    let is_there = || run(&python, &["-c", &format!("import {imports}")]);
    // Tests are processes of their own, and only one of them may make it.
    let lock = File::create(temporary.join(format!("{name}.lock"))).expect("a file");
    lock.lock().expect("a lock");
    if !is_there() {
        let install = [&["-m", "pip", "install", "-q"][..], packages].concat();
        let made = run(Path::new("python3"), &["-m", "venv", folder.to_str()?]) && run(&python, &install);
        if !made || !is_there() {
            eprintln!("skipped: {} can't be installed", packages.join(" and "));
            return None;
        }
    }
    Some(python)
}

/// A server that speaks like S3, and ends with the test.
#[derive(Debug)]
pub(crate) struct S3 {
    server: Child,
    python: PathBuf,
    /// Where it listens.
    pub(crate) address: String,
}

impl S3 {
    /// Moto; `None`, with a word, where it can't be had.
    pub(crate) fn start() -> Option<Self> {
        let python = environment("moto", &["moto[s3,server]"], "moto.server")?;
        let address = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let script = format!("from moto.server import main; main(['-H', '127.0.0.1', '-p', '{}'])", address.port());
        let mut command = Command::new(&python);
        let server = command.args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        while std::net::TcpStream::connect(address).is_err() {
            std::thread::yield_now();
        }
        Some(Self { server, python, address: address.to_string() })
    }

    /// What a line of Python that has `s3`, a client of it, prints.
    pub(crate) fn ask(&self, line: &str) -> String {
        let key = "aws_access_key_id='an-id', aws_secret_access_key='a-key', region_name='us-east-1'";
        let client = format!("s3 = boto3.client('s3', endpoint_url='http://{}', {key})", self.address);
        let output = Command::new(&self.python).args(["-c", &format!("import boto3, sys\n{client}\n{line}")]).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
