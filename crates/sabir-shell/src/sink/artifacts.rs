//! Artifact uploads to a sink.

use std::path::Path;

use object_store::{Error, ObjectStoreExt as _, PutPayload};
use ring::digest::{Context, SHA256};
use sabir_protocol::envelope::notes::Artifact;

use super::{StorageSink, hex};
use crate::artifact::{UploadError, read_chunk};

impl StorageSink {
    /// Uploads a file atomically, unless it is stored.
    pub(crate) async fn upload_artifact(&self, file: &Path, artifact: &Artifact) -> Result<(), UploadError> {
        let retry = |_: Error| UploadError::Retry;
        let name = self.names.artifact(&artifact.sha256).ok_or(UploadError::Permanent)?;
        match self.store.head(&name).await {
            Ok(meta) if meta.size == artifact.bytes => return Ok(()),
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(retry(error)),
        }
        let read = |offset| read_chunk(file, offset).map_err(|_| UploadError::Permanent);
        let mut context = Context::new(&SHA256);
        let first = read(0)?;
        context.update(&first);
        let mut offset = first.len() as u64;
        if offset == artifact.bytes {
            let is_same = hex(context.finish().as_ref()) == artifact.sha256;
            return if is_same {
                self.store.put(&name, PutPayload::from(first)).await.map(|_| self.tighten(&name)).map_err(retry)
            } else {
                Err(UploadError::Permanent)
            };
        }
        let mut upload = self.store.put_multipart(&name).await.map_err(retry)?;
        let mut bytes = first;
        while !bytes.is_empty() {
            upload.put_part(PutPayload::from(bytes)).await.map_err(retry)?;
            bytes = read(offset)?;
            context.update(&bytes);
            offset += bytes.len() as u64;
        }
        if hex(context.finish().as_ref()) != artifact.sha256 {
            // The file changed while it was read.
            let _ = upload.abort().await;
            return Err(UploadError::Permanent);
        }
        upload.complete().await.map(|_| self.tighten(&name)).map_err(retry)
    }
}
