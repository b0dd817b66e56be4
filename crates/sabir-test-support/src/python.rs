//! Programs from the Python Package Index, each in a virtual environment of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The interpreter of a virtual environment with these packages, which is made in `cache` once and kept.
///
/// `None` if it can't be made and [skipping](crate::skip) is allowed.
pub fn environment(cache: &Path, name: &str, packages: &[&str], imports: &str) -> Option<PathBuf> {
    let folder = cache.join(name);
    let python = folder.join("bin/python");
    let run = |program: &Path, arguments: &[&str]| match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("{}: {error}", program.display())),
    };
    let import = || run(&python, &["-c", &format!("import {imports}")]);
    // Tests are processes of their own, and only one of them may make it.
    let lock = File::create(cache.join(format!("{name}.lock"))).expect("a file");
    lock.lock().expect("a lock");
    if import().is_err() {
        let install = [&["-m", "pip", "install", "-q"][..], packages].concat();
        let made = run(Path::new("python3"), &["-m", "venv", folder.to_str().expect("a path in UTF-8")])
            .and_then(|()| run(&python, &install))
            .and_then(|()| import());
        if let Err(error) = made {
            let missing = format!("the Python packages {} can't be installed: {error}", packages.join(" and "));
            crate::skip_test(&missing, "install python3 with venv and pip, and allow access to PyPI");
            return None;
        }
    }
    Some(python)
}

/// Moto, a server of the S3 protocol, until it is dropped.
#[derive(Debug)]
pub struct S3 {
    server: Child,
    python: PathBuf,
    /// The address that it listens on.
    pub address: String,
}

impl S3 {
    /// Starts a server; `None` if it can't be installed and [skipping](crate::skip) is allowed.
    pub fn start(cache: &Path) -> Option<Self> {
        let python = environment(cache, "moto", &["moto[s3,server]"], "moto.server")?;
        let address = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let script = format!("from moto.server import main; main(['-H', '127.0.0.1', '-p', '{}'])", address.port());
        let mut command = Command::new(&python);
        let server = command.args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        while std::net::TcpStream::connect(address).is_err() {
            std::thread::yield_now();
        }
        Some(Self { server, python, address: address.to_string() })
    }

    /// Runs a line of Python in which `s3` is a client of the server, and returns what it prints.
    pub fn ask(&self, line: &str) -> String {
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
