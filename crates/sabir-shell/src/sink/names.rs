//! Object names of a sink, and what they encode.

use object_store::path::Path;
use sabir_protocol::SessionId;
use serde::{Deserialize, Serialize};

/// Claim of an epoch by a writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EpochClaim {
    pub(super) writer: String,
    pub(super) epoch: u32,
    /// Sequence number before the writer's first message.
    pub(super) after: u64,
    /// Segments contain only validated messages. Absent in earlier versions.
    #[serde(default)]
    pub(super) checked: bool,
}

/// Messages stored in one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) epoch: u32,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) sha256: String,
}

impl Segment {
    /// Parses a segment name; `None` for other names.
    pub(super) fn of(name: &Path) -> Option<Self> {
        let mut parts = name.filename()?.strip_suffix(".jsonl")?.splitn(4, '-');
        let (epoch, first, last, sha256) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hash && first <= last).then_some(Self { epoch: epoch.parse().ok()?, first, last, sha256: sha256.to_owned() })
    }

    fn file(&self) -> String {
        format!("{:08}-{:012}-{:012}-{}.jsonl", self.epoch, self.first, self.last, self.sha256)
    }
}

/// Parses the name of a claim.
pub(super) fn epoch_of(name: &Path) -> Option<u32> {
    name.filename()?.strip_suffix(".json")?.parse().ok()
}

/// Sequence number up to which messages of an epoch count.
pub(super) fn limit(claims: &[EpochClaim], epoch: u32) -> u64 {
    claims.iter().filter(|claim| claim.epoch > epoch).map(|claim| claim.after).min().unwrap_or(u64::MAX)
}

/// Last stored sequence number without a gap before it.
pub(super) fn last(claims: &[EpochClaim], segments: &[Segment]) -> u64 {
    let mut have = claims.first().map_or(0, |claim| claim.after);
    for segment in segments {
        let to = segment.last.min(limit(claims, segment.epoch));
        // A later writer may have started after messages that are not backfilled yet.
        let begins = claims.iter().filter(|claim| claim.epoch == segment.epoch).any(|claim| claim.after + 1 == segment.first);
        if segment.first <= have + 1 || begins {
            have = have.max(to);
        }
    }
    have
}

/// Object names of one session.
#[derive(Debug, Clone)]
pub(super) struct ObjectNames {
    session: SessionId,
    /// Common prefix.
    root: String,
}

impl ObjectNames {
    pub(super) fn new(prefix: &str, session: &SessionId) -> Self {
        let prefix = prefix.trim_matches('/');
        let slash = if prefix.is_empty() { "" } else { "/" };
        Self { session: session.clone(), root: format!("{prefix}{slash}sessions/{}", session.in_address()) }
    }

    pub(super) fn session(&self) -> &str {
        self.session.as_str()
    }

    fn below(&self, name: &str) -> Option<Path> {
        Path::parse(format!("{}/{name}", self.root)).ok()
    }

    pub(super) fn log(&self) -> Option<Path> {
        self.below("log")
    }

    pub(super) fn claims(&self) -> Option<Path> {
        self.below("epochs")
    }

    pub(super) fn claim(&self, epoch: u32) -> Option<Path> {
        self.below(&format!("epochs/{epoch:08}.json"))
    }

    pub(super) fn segment(&self, segment: &Segment) -> Option<Path> {
        self.below(&format!("log/{}", segment.file()))
    }

    pub(super) fn artifact(&self, sha256: &str) -> Option<Path> {
        self.below(&format!("artifacts/{sha256}"))
    }

    /// Name of a compacted part. The first has no number.
    pub(super) fn part(&self, number: u32) -> Option<Path> {
        self.below(&if number == 0 { "messages.json".to_owned() } else { format!("messages-{number:04}.json") })
    }
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::{EpochClaim, ObjectNames, Segment, last};

    fn segment(epoch: u32, first: u64, last: u64) -> Segment {
        Segment { epoch, first, last, sha256: "ab".repeat(32) }
    }

    fn claim(epoch: u32, after: u64) -> EpochClaim {
        EpochClaim { writer: "w".to_owned(), epoch, after, checked: true }
    }

    #[test]
    fn segment_names_round_trip_and_are_escaped() {
        let names = ObjectNames::new("/team/", &"../a b".parse().expect("a session"));
        let name = names.segment(&segment(3, 17, 42)).expect("a name");
        let hash = "ab".repeat(32);
        assert_eq!(name.as_ref(), format!("team/sessions/..%2Fa%20b/log/00000003-000000000017-000000000042-{hash}.jsonl"));
        assert_eq!(Segment::of(&name), Some(segment(3, 17, 42)));
        for other in ["log/x.jsonl", "log/1-2-3-4.jsonl", "log/1-3-2-00.jsonl", "messages.json"] {
            assert_eq!(Segment::of(&Path::from(other)), None, "{other}");
        }
    }

    #[test]
    fn last_is_derived_from_names() {
        for (claims, segments, want) in [
            (vec![], vec![], 0),
            (vec![claim(1, 0)], vec![segment(1, 1, 10), segment(1, 11, 20)], 20),
            // Stored again with more messages, because the response was lost.
            (vec![claim(1, 0)], vec![segment(1, 1, 12), segment(1, 1, 10), segment(1, 13, 20)], 20),
            // A gap.
            (vec![claim(1, 0)], vec![segment(1, 1, 10), segment(1, 12, 20)], 10),
            // Messages of a fenced writer after its fence do not count.
            (vec![claim(1, 0), claim(2, 10)], vec![segment(1, 1, 10), segment(1, 11, 30), segment(2, 11, 15)], 15),
            (vec![claim(5, 40)], vec![segment(5, 41, 50)], 50),
        ] {
            assert_eq!(last(&claims, &segments), want, "{segments:?}");
        }
    }
}
