//! The arguments of a program, as far as one can sort them without knowing it.

/// Arguments sorted into options and the rest.
#[derive(Debug, Default)]
pub(super) struct Options {
    given: Vec<(String, Option<String>)>,
    /// What is not an option.
    pub(super) places: Vec<String>,
    /// What follows `--`.
    pub(super) paths: Vec<String>,
    /// All words from the first that is not an option.
    pub(super) rest: Vec<String>,
}

impl Options {
    /// `with_value` lists the options that take the next word; `first_only` stops at the first word that is no option.
    pub(super) fn read(words: &[String], with_value: &str, first_only: bool) -> Self {
        let mut read = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                read.paths.extend(words.by_ref().cloned());
            } else if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
                read.given.push((name.to_owned(), Some(value.to_owned())));
            } else if word.starts_with("--") || word.len() == 2 && word.starts_with('-') {
                let value = listed(with_value, word).then(|| words.next().cloned()).flatten();
                read.given.push((word.clone(), value));
            } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                read.cluster(letters, with_value, &mut words);
            } else if first_only {
                read.rest.push(word.clone());
                read.rest.extend(words.by_ref().cloned());
            } else {
                read.places.push(word.clone());
            }
        }
        read
    }

    /// `-am MESSAGE` and `-bNAME`.
    fn cluster<'w>(&mut self, letters: &str, with_value: &str, words: &mut impl Iterator<Item = &'w String>) {
        for (index, letter) in letters.char_indices() {
            let name = format!("-{letter}");
            if !listed(with_value, &name) {
                self.given.push((name, None));
                continue;
            }
            let rest = &letters[index + letter.len_utf8()..];
            let value = if rest.is_empty() { words.next().cloned() } else { Some(rest.to_owned()) };
            self.given.push((name, value));
            return;
        }
    }

    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    pub(super) fn value(&self, names: &[&str]) -> Option<&str> {
        self.given.iter().find(|(name, value)| names.contains(&name.as_str()) && value.is_some())?.1.as_deref()
    }
}

fn listed(options: &str, name: &str) -> bool {
    options.split(' ').any(|option| option == name)
}
