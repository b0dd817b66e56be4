//! Compaction of segments into `messages.json` and its further parts.

use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _, PutPayload};
use sabir_protocol::envelope::read;

use super::{SinkError, StorageSink, names};
use crate::error::RunnerError;
use crate::outbox::runner_message;

/// Maximum size of a message with its line feed.
const MAX_LINE_BYTES: u64 = (1 << 20) + 1;

impl StorageSink {
    /// Writes full parts and, if `is_final`, the last one. Full parts are never rewritten.
    pub(super) async fn compact(&self, is_final: bool) -> Result<(), SinkError> {
        let (claims, segments) = (self.claims().await?, self.segments().await?);
        let is_checked = |epoch| claims.iter().any(|claim| claim.epoch == epoch && claim.checked);
        let are_checked = segments.iter().all(|segment| is_checked(segment.epoch));
        // Parts of a version that did not validate may contain invalid lines and are rewritten.
        let (mut number, mut last) = if are_checked { self.composed().await? } else { (0, 0) };
        let mut part: Vec<u8> = Vec::new();
        for segment in segments {
            let to = segment.last.min(names::limit(&claims, segment.epoch));
            if to <= last {
                continue;
            }
            let name = self.names.segment(&segment).ok_or_else(super::invalid_name)?;
            let bytes = self.store.get(&name).await?.bytes().await?;
            if super::sha256(&bytes) != segment.sha256 {
                return Err(self.damaged(&name));
            }
            let is_checked = is_checked(segment.epoch);
            let mut in_invalid = false;
            for (line, place) in bytes.split_inclusive(|byte| *byte == b'\n').zip(segment.first..=to) {
                let seq = if is_checked { Ok(place) } else { read::check(line, self.names.session()) };
                let Ok(seq) = seq else {
                    in_invalid = true;
                    continue;
                };
                if seq <= last || seq > to {
                    continue;
                }
                let mut note = Vec::new();
                if std::mem::take(&mut in_invalid) && seq > last + 1 {
                    let text =
                        format!("messages {} to {} are lost: an earlier version cut them at line breaks", last + 1, seq - 1);
                    note = runner_message(self.names.session(), last + 1, "error", None, &text);
                    note.push(b'\n');
                }
                if !part.is_empty() && part.len() + note.len() + line.len() > self.part_bytes {
                    self.put_part(number, std::mem::take(&mut part)).await?;
                    number += 1;
                }
                part.append(&mut note);
                part.extend_from_slice(line);
                last = seq;
            }
        }
        if is_final && !part.is_empty() {
            self.put_part(number, part).await?;
            number += 1;
        }
        if is_final && !are_checked {
            self.remove_part(number).await?;
        }
        Ok(())
    }

    /// Deletes a part that is obsolete because earlier parts became shorter.
    async fn remove_part(&self, number: u32) -> Result<(), SinkError> {
        let name = self.names.part(number).ok_or_else(super::invalid_name)?;
        match self.store.head(&name).await {
            Err(Error::NotFound { .. }) => Ok(()),
            found => {
                drop(found?);
                Ok(self.store.delete(&name).await?)
            }
        }
    }

    fn damaged(&self, name: &Path) -> SinkError {
        SinkError::Failed(RunnerError::SinkDamaged { sink: self.title.clone(), object: name.to_string() })
    }

    async fn put_part(&self, number: u32, bytes: Vec<u8>) -> Result<(), SinkError> {
        let name = self.names.part(number).ok_or_else(super::invalid_name)?;
        self.store.put(&name, PutPayload::from(bytes)).await?;
        self.tighten(&name);
        Ok(())
    }

    /// Number of the next part, and the last message before it. The last existing part may not be full.
    async fn composed(&self) -> Result<(u32, u64), SinkError> {
        let mut next_part = (0, 0);
        for number in 0.. {
            let (name, next) = (self.names.part(number), self.names.part(number + 1));
            let (Some(name), Some(next)) = (name, next) else { break };
            match self.store.head(&next).await {
                Err(Error::NotFound { .. }) => break,
                found => drop(found?),
            }
            let size = self.store.head(&name).await?.size;
            let end = self.store.get_range(&name, size.saturating_sub(MAX_LINE_BYTES + 1)..size).await?;
            let line = end.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            let Ok(last) = read::check(line, self.names.session()) else {
                return Err(self.damaged(&name));
            };
            next_part = (number + 1, last);
        }
        Ok(next_part)
    }
}
