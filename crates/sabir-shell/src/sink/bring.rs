//! The bytes of artifacts.

use std::path::Path;

use object_store::{Error, ObjectStoreExt as _, PutPayload};
use ring::digest::{Context, SHA256};
use sabir_protocol::envelope::notes::Artifact;

use super::{Sink, hex};
use crate::artifact::{Stop, piece};

impl Sink {
    /// Brings a file, unless it is there. It is there whole or not at all.
    pub(crate) async fn bring(&self, file: &Path, artifact: &Artifact) -> Result<(), Stop> {
        let later = |error: Error| Stop::Later(error.to_string());
        let name = self.names.artifact(&artifact.sha256).ok_or(Stop::Never)?;
        match self.store.head(&name).await {
            Ok(meta) if meta.size == artifact.bytes => return Ok(()),
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(later(error)),
        }
        let read = |offset| piece(file, offset).map_err(|_| Stop::Never);
        let mut context = Context::new(&SHA256);
        let first = read(0)?;
        context.update(&first);
        let mut offset = first.len() as u64;
        if offset == artifact.bytes {
            let is_same = hex(context.finish().as_ref()) == artifact.sha256;
            return if is_same {
                self.store.put(&name, PutPayload::from(first)).await.map(|_| self.tighten(&name)).map_err(later)
            } else {
                Err(Stop::Never)
            };
        }
        let mut upload = self.store.put_multipart(&name).await.map_err(later)?;
        let mut bytes = first;
        while !bytes.is_empty() {
            upload.put_part(PutPayload::from(bytes)).await.map_err(later)?;
            bytes = read(offset)?;
            context.update(&bytes);
            offset += bytes.len() as u64;
        }
        if hex(context.finish().as_ref()) != artifact.sha256 {
            // It changed while it was read.
            let _ = upload.abort().await;
            return Err(Stop::Never);
        }
        upload.complete().await.map(|_| self.tighten(&name)).map_err(later)
    }
}
