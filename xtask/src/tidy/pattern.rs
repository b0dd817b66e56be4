//! Sequences of tokens to look for.

use std::iter::Peekable;
use std::str::Chars;

use super::source::Token;

/// Code to look for, token by token: `Command::new`, `println!`, `Box<RawValue>`, `"*.seg"`.
///
/// Brackets need not be balanced. An asterisk at the beginning or the end of a string literal stands for any text.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    tokens: Vec<String>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        let mut characters = text.chars().peekable();
        let tokens = std::iter::from_fn(|| token(&mut characters)).collect();
        Self { text: text.to_owned(), tokens }
    }

    /// The lines on which it begins.
    pub(super) fn lines<'t>(&'t self, tokens: &'t [Token]) -> impl Iterator<Item = usize> + 't {
        let is_here = |window: &&[Token]| window.iter().zip(&self.tokens).all(|(token, pattern)| matches(&token.text, pattern));
        tokens.windows(self.tokens.len()).filter(is_here).map(|window| window[0].line)
    }
}

fn token(characters: &mut Peekable<Chars<'_>>) -> Option<String> {
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    while characters.next_if(|c| c.is_whitespace()).is_some() {}
    let mut token = String::from(characters.next()?);
    match token.as_str() {
        ":" => token.extend(characters.next_if_eq(&':')),
        "\"" => {
            while let Some(c) = characters.next_if(|c| *c != '"') {
                token.push(c);
            }
            token.extend(characters.next());
        }
        first if first.starts_with(|c| is_word(&c)) => {
            while let Some(c) = characters.next_if(is_word) {
                token.push(c);
            }
        }
        _ => {}
    }
    Some(token)
}

fn matches(token: &str, pattern: &str) -> bool {
    let literal = |text: &str| text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map(str::to_owned);
    let Some((pattern, token)) = literal(pattern).zip(literal(token)) else { return token == pattern };
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => token.ends_with(end),
        (None, Some(start)) => token.starts_with(start),
        (None, None) => token == pattern,
    }
}
