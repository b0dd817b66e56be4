//! A bucket of a real S3 server, which shells write their logs to as well.

use std::fmt::Display;
use std::path::Path;
use std::process::Command;

use sabir_test_support::python::S3;

pub(crate) struct Bucket(S3);

impl Bucket {
    /// `None` if no server can be installed and skipping is allowed.
    pub(crate) fn new() -> Option<Self> {
        let s3 = S3::start(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
        s3.ask("s3.create_bucket(Bucket='logs')");
        Some(Self(s3))
    }

    pub(crate) fn address(&self) -> &str {
        &self.0.address
    }

    /// Has a shell write to it.
    pub(crate) fn tell(&self, command: &mut Command) {
        Self::tell_by(&self.0.address, command);
    }

    /// The same by way of that address.
    pub(crate) fn tell_by(address: impl Display, command: &mut Command) {
        command.env("S3_BUCKET", "logs").env("S3_PREFIX", "team").env("AWS_REGION", "us-east-1").env("AWS_TIMEOUT", "2s");
        command.env("AWS_ENDPOINT_URL", format!("http://{address}")).env("AWS_ACCESS_KEY_ID", "not-really-an-id");
        command.env("AWS_SECRET_ACCESS_KEY", "not-really-a-key");
    }

    /// Puts every file of the folder, under its path in it.
    pub(crate) fn put(&self, folder: &Path) {
        let put = "s3.put_object(Bucket='logs', Key=str(path.relative_to(folder)), Body=path.read_bytes())";
        let folder = folder.to_str().expect("a path");
        self.0.ask(&format!(
            "import pathlib\nfolder = pathlib.Path({folder:?})\nfor path in folder.rglob('*'):\n  if path.is_file(): {put}"
        ));
    }

    /// The log of a session that has ended.
    pub(crate) fn messages(&self, session: &str) -> Vec<String> {
        let get = format!("s3.get_object(Bucket='logs', Key='team/sessions/{session}/messages.json')");
        let body = self.0.ask(&format!("sys.stdout.buffer.write({get}['Body'].read())"));
        body.lines().map(str::to_owned).collect()
    }
}
