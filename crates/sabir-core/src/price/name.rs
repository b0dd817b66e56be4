//! How the names of models are written, and what stands around them.

/// The words of a name in lower case with one hyphen between them, whatever stands between them in the text.
pub(super) fn fold(name: &str) -> String {
    let (mut folded, mut ended) = (String::with_capacity(name.len()), false);
    for c in name.chars() {
        if !c.is_alphanumeric() {
            ended = !folded.is_empty();
            continue;
        }
        if std::mem::take(&mut ended) {
            folded.push('-');
        }
        if c.is_ascii() {
            folded.push(c.to_ascii_lowercase());
        } else {
            folded.extend(c.to_lowercase());
        }
    }
    folded
}

/// A folded name as it is, then with one ending less at a time.
pub(super) fn without_endings(folded: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(folded), |name| {
        let last_words = name.rmatch_indices('-').take(3).map(|(hyphen, _)| hyphen);
        let mut cuts = last_words.filter(|&hyphen| hyphen > 0 && is_ending(&name[hyphen + 1..]));
        cuts.next().map(|hyphen| &name[..hyphen])
    })
}

/// Whether these words at the end of a name say which copy of the model it is, and not which model.
fn is_ending(words: &str) -> bool {
    let number = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    let year = |text: &str| number(text, 4) && text.starts_with("20");
    let revision = |text: &str| text.strip_prefix('v').is_some_and(|digit| number(digit, 1));
    let mut parts = words.split('-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("latest" | "default" | "1m"), None, ..) => true,
        (Some(date), None, ..) => (number(date, 8) && date.starts_with("20")) || revision(date),
        (Some(first), Some(second), None, _) => revision(first) && number(second, 1),
        (Some(first), Some(month), Some(day), None) => year(first) && number(month, 2) && number(day, 2),
        _ => false,
    }
}
