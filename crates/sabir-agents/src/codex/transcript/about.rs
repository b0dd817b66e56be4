//! What the banner says.

use sabir_core::event::Session;

/// The lines between the two rules below the banner: `workdir: /home/user/project`.
#[derive(Debug, Default)]
pub(super) struct About {
    version: Option<String>,
    session_id: Option<String>,
    model: Option<String>,
    cwd: Option<String>,
    sandbox: Option<String>,
    rules: u8,
}

impl About {
    /// The banner of that version.
    pub(super) fn of(version: &str) -> Self {
        Self { version: Some(version.to_owned()), ..Self::default() }
    }

    /// Reads the next line; the session, once all of it is read.
    pub(super) fn line(&mut self, line: &str) -> Option<Session<'static>> {
        if line.starts_with("--------") {
            self.rules += 1;
            return (self.rules == 2).then(|| std::mem::take(self).session());
        }
        let (key, value) = line.split_once(": ")?;
        let field = match key {
            "workdir" => &mut self.cwd,
            "model" => &mut self.model,
            "sandbox" => &mut self.sandbox,
            "session id" => &mut self.session_id,
            _ => return None,
        };
        *field = Some(value.to_owned());
        None
    }

    fn session(self) -> Session<'static> {
        Session::default()
            .session_id(self.session_id)
            .model(self.model)
            .cwd(self.cwd)
            .agent_version(self.version)
            .permission_mode(self.sandbox)
    }
}
