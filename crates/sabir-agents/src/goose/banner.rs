//! The lines before the stream.
//!
//! ```text
//!     __( O)>  ● new session · openai gpt-4o
//!    \____)    20261115_3 · /home/user/project
//!      L L     goose is ready
//! ```

use sabir_core::dialect::Facts;
use sabir_core::event::Session;

/// What the banner said.
#[derive(Debug, Default)]
pub(super) struct Banner {
    model: Option<String>,
    session_id: Option<String>,
    cwd: Option<String>,
    /// The session was there before this run.
    pub(super) resumed: bool,
}

/// One line of it, by what it shows of the bird.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Head,
    Body,
    Feet,
}

/// Which line of the banner this is, and what stands beside the bird.
pub(super) fn piece(line: &str) -> Option<(Piece, &str)> {
    let line = line.trim();
    let pieces = [("__( O)>", Piece::Head), ("\\____)", Piece::Body), ("L L  ", Piece::Feet)];
    pieces.into_iter().find_map(|(start, piece)| line.strip_prefix(start).map(|rest| (piece, rest.trim())))
}

impl Banner {
    /// Reads a line; false when it is none of the banner. The last one says the session.
    pub(super) fn line(&mut self, line: &str, facts: &mut Facts<'_>) -> bool {
        let Some((piece, text)) = piece(line) else { return false };
        let (first, second) = text.split_once(" · ").unwrap_or((text, ""));
        let known = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        match piece {
            Piece::Head => {
                self.resumed = first.trim_start_matches('●').trim() == "resuming";
                // The provider stands before the model.
                self.model = second.split_once(' ').and_then(|(_, model)| known(model));
            }
            Piece::Body => (self.session_id, self.cwd) = (known(first), known(second)),
            Piece::Feet => facts.push(self.session()),
        }
        true
    }

    fn session(&self) -> Session<'static> {
        Session::default().session_id(self.session_id.clone()).model(self.model.clone()).cwd(self.cwd.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{Banner, Session};
    use sabir_core::dialect::Facts;
    use sabir_core::event::EventKind;

    #[test]
    fn the_banner_says_session_model_and_folder() {
        let (mut banner, mut facts) = (Banner::default(), Facts::default());
        assert!(banner.line("    __( O)>  ● resuming · openai gpt-4o", &mut facts));
        assert!(banner.line("   \\____)    20261115_3 · /home/user/a · b", &mut facts));
        assert!(facts.is_empty());
        assert!(banner.line("     L L     goose is ready", &mut facts));
        let kinds: Vec<_> = facts.iter().map(|fact| fact.kind.clone()).collect();
        let [EventKind::Session(Session { session_id, model, cwd, .. })] = &kinds[..] else { panic!("the feet end the banner") };
        assert_eq!((session_id.as_deref(), model.as_deref()), (Some("20261115_3"), Some("gpt-4o")));
        assert_eq!(cwd.as_deref(), Some("/home/user/a · b"));
        assert!(banner.resumed);
        assert!(!banner.line("some text", &mut facts));
    }
}
