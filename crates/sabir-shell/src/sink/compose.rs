//! `messages.json` and the parts that follow it, put together from the segments.

use object_store::{Error, ObjectStoreExt as _, PutPayload};
use sabir_protocol::envelope::read;

use super::{Sink, Stop, names};
use crate::Failure;
use crate::outbox::note;

/// No message is longer than this, with its line feed.
const LONGEST: u64 = (1 << 20) + 1;

impl Sink {
    /// Writes the parts that are full, and at the end the last one too. What is full is not written again.
    pub(super) async fn compose(&self, whole: bool) -> Result<(), Stop> {
        let (claims, segments) = (self.claims().await?, self.segments().await?);
        let is_checked = |epoch| claims.iter().any(|claim| claim.epoch == epoch && claim.checked);
        let are_checked = segments.iter().all(|segment| is_checked(segment.epoch));
        // Parts of a version that did not validate may hold lines that are no messages: they are written anew.
        let (mut number, mut have) = if are_checked { self.composed().await? } else { (0, 0) };
        let mut part: Vec<u8> = Vec::new();
        for segment in segments {
            let to = segment.last.min(names::limit(&claims, segment.epoch));
            if to <= have {
                continue;
            }
            let name = self.names.segment(&segment).ok_or_else(super::bad_name)?;
            let bytes = self.store.get(&name).await?.bytes().await?;
            if super::sha256(&bytes) != segment.sha256 {
                return Err(Stop::Broken(Failure::delivery(format!("{name} in {} is damaged", self.title))));
            }
            let is_checked = is_checked(segment.epoch);
            let mut is_broken = false;
            for (line, place) in bytes.split_inclusive(|byte| *byte == b'\n').zip(segment.first..=to) {
                let seq = if is_checked { Ok(place) } else { read::check(line, self.names.session()) };
                let Ok(seq) = seq else {
                    is_broken = true;
                    continue;
                };
                if seq <= have || seq > to {
                    continue;
                }
                let mut lost = Vec::new();
                if std::mem::take(&mut is_broken) && seq > have + 1 {
                    let text =
                        format!("messages {} to {} are lost: an earlier version cut them at line breaks", have + 1, seq - 1);
                    lost = note(self.names.session(), have + 1, "error", None, &text);
                    lost.push(b'\n');
                }
                if !part.is_empty() && part.len() + lost.len() + line.len() > self.roll {
                    self.part(number, std::mem::take(&mut part)).await?;
                    number += 1;
                }
                part.append(&mut lost);
                part.extend_from_slice(line);
                have = seq;
            }
        }
        if whole && !part.is_empty() {
            self.part(number, part).await?;
            number += 1;
        }
        if whole && !are_checked {
            self.remove_part(number).await?;
        }
        Ok(())
    }

    /// Removes a part that is none any more, because those before it have become shorter.
    async fn remove_part(&self, number: u32) -> Result<(), Stop> {
        let name = self.names.part(number).ok_or_else(super::bad_name)?;
        match self.store.head(&name).await {
            Err(Error::NotFound { .. }) => Ok(()),
            found => {
                drop(found?);
                Ok(self.store.delete(&name).await?)
            }
        }
    }

    async fn part(&self, number: u32, bytes: Vec<u8>) -> Result<(), Stop> {
        let name = self.names.part(number).ok_or_else(super::bad_name)?;
        self.store.put(&name, PutPayload::from(bytes)).await?;
        self.tighten(&name);
        Ok(())
    }

    /// The number of the part to write next, and the last message before it. The last part that is there may not be full.
    async fn composed(&self) -> Result<(u32, u64), Stop> {
        let mut before = (0, 0);
        for number in 0.. {
            let (name, next) = (self.names.part(number), self.names.part(number + 1));
            let (Some(name), Some(next)) = (name, next) else { break };
            match self.store.head(&next).await {
                Err(Error::NotFound { .. }) => break,
                found => drop(found?),
            }
            let size = self.store.head(&name).await?.size;
            let end = self.store.get_range(&name, size.saturating_sub(LONGEST + 1)..size).await?;
            let line = end.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            let Ok(last) = read::check(line, self.names.session()) else {
                return Err(Stop::Broken(Failure::delivery(format!("{name} in {} is damaged", self.title))));
            };
            before = (number + 1, last);
        }
        Ok(before)
    }
}
