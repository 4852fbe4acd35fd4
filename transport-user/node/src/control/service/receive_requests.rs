//! Answers requests about receives.

use tiercel::control::answer::{Content, Receive};
use tiercel::control::{Failure, Hex, INLINE_LIMIT, request};
use transport_common::ids::Cid;
use transport_common::queues::RECEIVE_QUEUE_DEPTH;

use super::NodeService;

impl NodeService {
    pub(super) async fn post_receives(&self, what: request::PostReceive) -> Result<Vec<Receive>, Failure> {
        let request::PostReceive { cid, length, count, wait } = what;
        let connection = self.connection(cid)?;
        let book = self.inner.receives.book(Cid(cid));
        if length == 0 || u32::try_from(length).is_err() || count == 0 || count as usize > RECEIVE_QUEUE_DEPTH
        {
            return Err(Failure::invalid(format!(
                "the length or the count of the receives is out of range: use 1 byte to 4 GiB, and 1 to \
                 {RECEIVE_QUEUE_DEPTH} receives"
            )));
        }
        let region = self.staging(length * u64::from(count))?;
        let ids = book.post(&connection, &region, length, count)?;
        if wait {
            book.completed(&ids).await;
        }
        Ok(book.list(&ids))
    }

    pub(super) fn list_receives(&self, cid: u32) -> Result<Vec<Receive>, Failure> {
        self.connection(cid)?;
        let book = self.inner.receives.book(Cid(cid));
        Ok(book.list_all())
    }

    pub(super) fn read_message(&self, what: request::Message) -> Result<Content, Failure> {
        let request::Message { cid, id, offset, length } = what;
        self.connection(cid)?;
        if length > INLINE_LIMIT {
            return Err(Failure::invalid(format!(
                "{length} bytes are too many: read at most {INLINE_LIMIT}"
            )));
        }
        let book = self.inner.receives.book(Cid(cid));
        let bytes = book.read(cid, id, offset, length)?;
        Ok(Content { bytes: length, hex: Some(Hex(bytes)) })
    }
}
