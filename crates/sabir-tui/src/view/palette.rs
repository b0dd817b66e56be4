//! The styles. Sixteen colours, so that the terminal's own theme holds; without colours the weights tell the same.

use ratatui::style::{Color, Modifier, Style};

/// Whether there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Palette {
    colours: bool,
}

impl Palette {
    /// With colours.
    pub fn coloured() -> Self {
        Self { colours: true }
    }

    /// Without.
    pub fn plain() -> Self {
        Self { colours: false }
    }

    /// Whether agents' colours may be shown.
    pub(crate) fn colours(self) -> bool {
        self.colours
    }

    fn of(self, color: Color, modifier: Modifier) -> Style {
        let style = self.weight(modifier);
        if self.colours { style.fg(color) } else { style }
    }

    /// What looks the same with and without colours.
    #[allow(clippy::unused_self)]
    fn weight(self, modifier: Modifier) -> Style {
        Style::new().add_modifier(modifier)
    }

    pub(crate) fn text(self) -> Style {
        self.weight(Modifier::empty())
    }
    pub(crate) fn dim(self) -> Style {
        self.weight(Modifier::DIM)
    }
    pub(crate) fn bold(self) -> Style {
        self.weight(Modifier::BOLD)
    }
    pub(crate) fn accent(self) -> Style {
        self.of(Color::Cyan, Modifier::BOLD)
    }
    pub(crate) fn name(self) -> Style {
        self.of(Color::Cyan, Modifier::empty())
    }
    pub(crate) fn good(self) -> Style {
        self.of(Color::Green, Modifier::empty())
    }
    pub(crate) fn bad(self) -> Style {
        self.of(Color::Red, Modifier::BOLD)
    }
    pub(crate) fn note(self) -> Style {
        self.of(Color::Yellow, Modifier::empty())
    }
    pub(crate) fn busy(self) -> Style {
        self.of(Color::Blue, Modifier::BOLD)
    }
    pub(crate) fn added(self) -> Style {
        self.of(Color::Green, Modifier::empty())
    }
    pub(crate) fn removed(self) -> Style {
        self.of(Color::Red, Modifier::empty())
    }
    pub(crate) fn hunk(self) -> Style {
        self.of(Color::Cyan, Modifier::DIM)
    }
    pub(crate) fn thought(self) -> Style {
        self.weight(Modifier::DIM | Modifier::ITALIC)
    }
    /// What the cursor is on.
    pub(crate) fn chosen(self) -> Style {
        self.weight(Modifier::REVERSED)
    }
    /// What was sought and found.
    pub(crate) fn found(self) -> Style {
        if self.colours {
            Style::new().fg(Color::Black).bg(Color::Yellow)
        } else {
            Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
        }
    }
}
