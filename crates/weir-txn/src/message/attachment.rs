//! Fields of a request that its serialised form does not have. They follow it in a message between processes, from protocol version 6
//! on; the form itself is that of earlier versions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_types::memory::WorkingMemory;

use super::Request;

/// Most requests have neither field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Of [`Request::Execute`].
    pub incarnation: Option<u64>,
    /// Of a call or a query; none: the default.
    pub memory: Option<WorkingMemory>,
}

impl Attachment {
    pub(crate) fn of(request: &Request) -> Attachment {
        let incarnation = match request {
            Request::Execute { incarnation, .. } => *incarnation,
            _ => None,
        };
        let of_call = request.call().map(|call| call.memory);
        let memory = of_call.or_else(|| Some(request.parts()?.memory));
        Attachment { incarnation, memory: memory.filter(|memory| *memory != WorkingMemory::default()) }
    }

    /// Puts the fields into a request that has come without them. Reason to reject it, if they cannot be its own.
    pub(crate) fn attach_to(self, request: &mut Request) -> Option<&'static str> {
        if self.incarnation.is_some() {
            let Request::Execute { incarnation, .. } = request else {
                return Some("an incarnation beside what it is not for");
            };
            *incarnation = self.incarnation;
        }
        if let Some(memory) = self.memory {
            let Some(place) = memory_of(request) else { return Some("working memory of what has none") };
            *place = memory;
            return (!memory.can_be_set()).then_some("working memory that no session has");
        }
        None
    }
}

fn memory_of(request: &mut Request) -> Option<&mut WorkingMemory> {
    match request {
        Request::Execute { call, .. } => Some(&mut call.memory),
        Request::Prepare { call, .. } | Request::Apply { call, .. } => Some(&mut Arc::make_mut(call).memory),
        Request::Decide { decision, .. } => Some(&mut Arc::make_mut(&mut decision.call).memory),
        Request::Work { work, .. } | Request::WorkAndBind { work, .. } => {
            Some(&mut Arc::make_mut(&mut work.call).memory)
        }
        Request::Read { query, .. } | Request::ReadAt { query, .. } | Request::ReadSnapshot { query, .. } => {
            Arc::make_mut(query).parts.as_mut().map(|parts| &mut parts.memory)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use weir_core::ids::{Timestamp, TxnId};

    use super::*;
    use crate::message::{Age, Begun, Call, Callee, ReadQuery};

    const TXN: TxnId = TxnId { coordinator: 1, sequence: 2 };

    fn execute(incarnation: Option<u64>, memory: WorkingMemory) -> Request {
        let callee = Callee::Procedure(0);
        let call = Call { callee, args: Vec::new(), transaction_time: 0.into(), schema_version: 0, memory };
        let begun = Begun { age: Age { sequence: 2, coordinator: 1 }, at_ms: 3 };
        Request::Execute { txn: TXN, begun, call: Box::new(call), incarnation }
    }

    /// Sends a request with that attachment.
    fn attached(request: &Request, attachment: Attachment) -> Result<Request, &'static str> {
        let bytes = postcard::to_allocvec(&(request, attachment)).unwrap();
        let (mut request, attachment): (Request, Attachment) = postcard::from_bytes(&bytes).unwrap();
        attachment.attach_to(&mut request).map_or(Ok(request), Err)
    }

    #[test]
    fn an_attachment_carries_what_the_request_does_not() {
        let small = WorkingMemory { sort_bytes: 64 << 10, hash_bytes: 0, files_bytes_max: Some(0) };
        for request in [execute(None, WorkingMemory::default()), execute(Some(7), small)] {
            let attachment = Attachment::of(&request);
            let bare = attached(&request, Attachment::default()).unwrap();
            assert_eq!(Attachment::of(&bare), Attachment::default());
            assert_eq!(Attachment::of(&attached(&bare, attachment).unwrap()), attachment);
        }
        let none = Attachment::of(&execute(None, WorkingMemory::default()));
        assert_eq!(postcard::to_allocvec(&none).unwrap(), [0, 0]);
    }

    #[test]
    fn an_attachment_that_cannot_be_of_its_request_is_refused() {
        let default = WorkingMemory::default();
        let commit = Request::Commit { txn: TXN, timestamp: Timestamp::default() };
        let tables = ReadQuery { tables: Vec::new(), parts: None, schema_version: 0 };
        let read = Request::Read { read: TXN, session: 0, query: Arc::new(tables), within: None };
        let incarnation = Attachment { incarnation: Some(1), memory: None };
        let memory = |memory| Attachment { incarnation: None, memory: Some(memory) };
        assert!(attached(&commit, incarnation).is_err() && attached(&commit, memory(default)).is_err());
        assert!(attached(&read, incarnation).is_err() && attached(&read, memory(default)).is_err());
        for wrong in [
            WorkingMemory { sort_bytes: usize::MAX, ..default },
            WorkingMemory { hash_bytes: usize::MAX, ..default },
            WorkingMemory { files_bytes_max: Some(u64::MAX), ..default },
        ] {
            assert!(attached(&execute(None, default), memory(wrong)).is_err(), "{wrong:?}");
        }
    }
}
