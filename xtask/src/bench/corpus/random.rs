//! Chance that is the same each time.

use std::sync::LazyLock;

/// A small generator (splitmix64).
pub(super) struct Random(u64);

/// Text in pieces that are valid inside a JSON string, in any order.
static PIECES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut random = Random::new(11);
    (0..12_000).map(|_| random.piece()).collect()
});

const WORDS: &[&str] = &[
    "fn",
    "let",
    "mut",
    "return",
    "impl",
    "struct",
    "enum",
    "match",
    "usage",
    "tokens",
    "session",
    "event",
    "parse",
    "error",
    "cargo",
    "build",
    "assert",
    "src/main.rs",
    "src/lib.rs",
    "tests/it.rs",
    "async",
    "await",
    "import",
    "class",
    "None",
    "0x7f3a",
    "127.0.0.1",
    "2026-11-02",
    "feature",
    "branch",
    "commit",
    "HEAD~1",
    "warning",
    "note",
    "column",
    "path",
];

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from the first up to the second.
    pub(super) fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from).max(1)
    }

    pub(super) fn one_in(&mut self, chances: u64) -> bool {
        self.range(0, chances) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// A place in a list of that length.
    fn below(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % length as u64).unwrap_or(0)
    }

    /// Mostly small, at times very large: the product of three is skewed that way.
    pub(super) fn size(&mut self) -> u64 {
        if self.one_in(900) {
            return self.range(200_000, 1_400_000);
        }
        let share = self.range(1, 100) * self.range(1, 100) * self.range(1, 100);
        500 + share / 25
    }

    pub(super) fn hex(&mut self, digits: usize) -> String {
        format!("{:016x}{:016x}", self.next(), self.next())[..digits].to_owned()
    }

    pub(super) fn uuid(&mut self) -> String {
        let hex = self.hex(32);
        format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }

    /// Text of about that many bytes, escaped.
    pub(super) fn text(&mut self, bytes: u64) -> String {
        let mut text = String::new();
        let mut place = self.below(PIECES.len());
        while (text.len() as u64) < bytes {
            text.push_str(&PIECES[place % PIECES.len()]);
            place += 1;
        }
        text
    }

    fn piece(&mut self) -> String {
        match self.range(0, 40) {
            0 => format!(
                r#"    \"usage\": {{\"input_tokens\": {}, \"output_tokens\": {}}},\n"#,
                self.range(0, 9999),
                self.range(0, 999)
            ),
            1 => {
                format!(r#"{{\"type\":\"assistant\",\"message\":{{\"usage\":{{\"input_tokens\":{}}}}}}}\n"#, self.range(0, 9999))
            }
            2 | 3 => r"│ café – naïve → ✓ 日本語 😀 \t\u001b[32mok\u001b[0m\n".to_owned(),
            4 => r#"{\"type\":\"token_count\",\"info\":{\"total_token_usage\":{\"input_tokens\":1}}}\n"#.to_owned(),
            _ => {
                let count = self.range(4, 14);
                let words: Vec<&str> = (0..count).map(|_| self.pick(WORDS)).collect();
                format!("{}{}\\n", " ".repeat(self.below(12)), words.join(" "))
            }
        }
    }
}
