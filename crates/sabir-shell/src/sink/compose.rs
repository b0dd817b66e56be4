//! `messages.json` and the parts that follow it, put together from the segments.

use object_store::{Error, ObjectStoreExt as _, PutPayload};

use super::{Sink, Stop, names};
use crate::Failure;

/// No message is longer than this, with its line feed.
const LONGEST: u64 = (1 << 20) + 1;

impl Sink {
    /// Writes the parts that are full, and at the end the last one too. What is full is not written again.
    pub(super) async fn compose(&self, whole: bool) -> Result<(), Stop> {
        let (claims, segments) = (self.claims().await?, self.segments().await?);
        let (mut number, mut have) = self.composed().await?;
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
            for (line, seq) in bytes.split_inclusive(|byte| *byte == b'\n').zip(segment.first..=to) {
                if seq <= have {
                    continue;
                }
                if !part.is_empty() && part.len() + line.len() > self.roll {
                    self.part(number, std::mem::take(&mut part)).await?;
                    number += 1;
                }
                part.extend_from_slice(line);
                have = seq;
            }
        }
        if whole && !part.is_empty() {
            self.part(number, part).await?;
        }
        Ok(())
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
            let message: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
            let Some(last) = message["seq"].as_u64() else {
                return Err(Stop::Broken(Failure::delivery(format!("{name} in {} is damaged", self.title))));
            };
            before = (number + 1, last);
        }
        Ok(before)
    }
}
