//! The words and operators of a command line.

/// How deep quotations in substitutions in quotations are followed.
const NESTING: usize = 32;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    /// `;`, `&`, `&&`, a line end or a parenthesis: the next command runs.
    Then,
    /// `||`: the next command runs only when this one fails.
    Or,
    Pipe,
    End,
}

/// Reads the words and operators of a command line.
pub(super) struct Scanner {
    text: Vec<char>,
    at: usize,
    /// Delimiters of the here-documents that begin after this line, and whether their tabs are stripped.
    documents: Vec<(String, bool)>,
}

impl Iterator for Scanner {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            let c = self.peek(0)?;
            match c {
                '\n' => {
                    self.at += 1;
                    self.skip_documents();
                    return Some(Token::Then);
                }
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                c if c.is_whitespace() => self.at += 1,
                '#' => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '|' if self.peek(1) == Some('|') => return Some(self.operator(2, Token::Or)),
                '|' if self.peek(1) == Some('&') => return Some(self.operator(2, Token::Pipe)),
                '|' => return Some(self.operator(1, Token::Pipe)),
                '&' if self.peek(1) == Some('&') => return Some(self.operator(2, Token::Then)),
                '&' if self.peek(1) == Some('>') => {
                    self.at += 1;
                    self.redirection(0);
                }
                '&' | ';' | '(' | ')' => return Some(self.operator(1, Token::Then)),
                '<' | '>' => self.redirection(0),
                _ => {
                    let word = self.word(0);
                    let is_descriptor = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
                    if is_descriptor && matches!(self.peek(0), Some('<' | '>')) {
                        self.redirection(0);
                    } else {
                        return Some(Token::Word(word));
                    }
                }
            }
        }
    }
}

impl Scanner {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.chars().collect(), at: 0, documents: Vec::new() }
    }

    fn peek(&self, offset: usize) -> Option<char> {
        self.text.get(self.at + offset).copied()
    }

    fn operator(&mut self, length: usize, token: Token) -> Token {
        self.at += length;
        token
    }

    /// One word with its quotes taken off. Substitutions stay as they are written.
    fn word(&mut self, nesting: usize) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek(0) {
            match c {
                c if c.is_whitespace() => break,
                ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    self.at += 1;
                    self.until_quote(&mut word);
                }
                '"' => {
                    self.at += 1;
                    self.double_quoted(nesting, &mut word);
                }
                '\\' => {
                    if let Some(next) = self.peek(1).filter(|next| *next != '\n') {
                        word.push(next);
                    }
                    self.at += 2;
                }
                '$' if self.peek(1) == Some('\'') => {
                    self.at += 2;
                    self.escaped_quote(&mut word);
                }
                '$' | '`' => self.dollar(nesting, &mut word),
                c => {
                    word.push(c);
                    self.at += 1;
                }
            }
        }
        word
    }

    fn until_quote(&mut self, word: &mut String) {
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == '\'' {
                return;
            }
            word.push(c);
        }
    }

    /// `$'…'`, in which a backslash escapes.
    fn escaped_quote(&mut self, word: &mut String) {
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '\'' => return,
                '\\' => {
                    let next = self.peek(0);
                    self.at += 1;
                    match next {
                        Some('n') => word.push('\n'),
                        Some('t') => word.push('\t'),
                        Some(other) => word.push(other),
                        None => return,
                    }
                }
                c => word.push(c),
            }
        }
    }

    fn double_quoted(&mut self, nesting: usize, word: &mut String) {
        while let Some(c) = self.peek(0) {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    match self.peek(1) {
                        Some('\n') | None => {}
                        Some(next @ ('$' | '`' | '"' | '\\')) => word.push(next),
                        Some(next) => word.extend(['\\', next]),
                    }
                    self.at += 2;
                }
                '$' | '`' => self.dollar(nesting, word),
                c => {
                    word.push(c);
                    self.at += 1;
                }
            }
        }
    }

    /// Copies what a `$` or a backtick begins.
    fn dollar(&mut self, nesting: usize, word: &mut String) {
        let start = self.at;
        match (self.peek(0), self.peek(1)) {
            (Some('$'), Some('(')) => {
                let arithmetic = self.peek(2) == Some('(');
                self.at += 2;
                self.substitution(nesting + 1, arithmetic);
            }
            (Some('`'), _) => {
                self.at += 1;
                while let Some(c) = self.peek(0) {
                    self.at += if c == '\\' { 2 } else { 1 };
                    if c == '`' {
                        break;
                    }
                }
            }
            _ => self.at += 1,
        }
        self.at = self.at.min(self.text.len());
        word.extend(self.text.get(start..self.at).unwrap_or_default());
    }

    /// Goes behind the parenthesis that closes a substitution.
    fn substitution(&mut self, nesting: usize, arithmetic: bool) {
        if nesting > NESTING {
            self.at = self.text.len();
            return;
        }
        // Here-documents inside are not those of the line around it.
        let outer = std::mem::take(&mut self.documents);
        let mut open = 1_usize;
        let mut ignored = String::new();
        while let Some(c) = self.peek(0) {
            match c {
                '(' => open += 1,
                ')' => {
                    open -= 1;
                    if open == 0 {
                        self.at += 1;
                        break;
                    }
                }
                '\'' | '"' | '\\' | '$' | '`' if !arithmetic => {
                    // One character more at least, whatever it begins.
                    let before = self.at;
                    ignored.clear();
                    match c {
                        '\'' => {
                            self.at += 1;
                            self.until_quote(&mut ignored);
                        }
                        '"' => {
                            self.at += 1;
                            self.double_quoted(nesting, &mut ignored);
                        }
                        '\\' => self.at += 2,
                        _ => self.dollar(nesting, &mut ignored),
                    }
                    self.at = self.at.max(before + 1);
                    continue;
                }
                '<' if !arithmetic => {
                    self.redirection(nesting);
                    continue;
                }
                '\n' => {
                    self.at += 1;
                    self.skip_documents();
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        self.documents = outer;
    }

    /// Passes over `>`, `2>&1`, `<<EOF` and the like with their targets.
    fn redirection(&mut self, nesting: usize) {
        let mut operator = String::new();
        while let Some(c @ ('<' | '>' | '&' | '-' | '|')) = self.peek(0) {
            if c == '-' && operator != "<<" || c == '|' && operator != ">" {
                break;
            }
            operator.push(c);
            self.at += 1;
        }
        while self.peek(0).is_some_and(|c| c == ' ' || c == '\t') {
            self.at += 1;
        }
        // Process substitution is a word that begins with an operator.
        if self.peek(0) == Some('(') {
            self.at += 1;
            self.substitution(nesting + 1, false);
            return;
        }
        let target = self.word(nesting);
        if matches!(operator.as_str(), "<<" | "<<-") && !target.is_empty() {
            self.documents.push((target, operator == "<<-"));
        }
    }

    /// Passes over the bodies of the here-documents that the line before announced.
    fn skip_documents(&mut self) {
        for (delimiter, strip) in std::mem::take(&mut self.documents) {
            while self.at < self.text.len() {
                let end = self.text[self.at..].iter().position(|c| *c == '\n').map_or(self.text.len(), |offset| self.at + offset);
                let line: String = self.text[self.at..end].iter().collect();
                self.at = (end + 1).min(self.text.len());
                let line = if strip { line.trim_start_matches('\t') } else { line.as_str() };
                if line.trim_end_matches('\r') == delimiter {
                    break;
                }
            }
        }
    }
}
