//! A transaction of several statements.

use crate::requests::Wish;
use crate::{Bytes, Client, Committed, Error, Isolation, Key, KeyRange, Stamp, Write};

/// Reads that follow from what was read before, and writes that become visible together at the commit. All that it reads is of
/// one state, its own writes included; under `Isolation::ReadCommitted` each statement by itself is. Dropping it rolls
/// it back. The deadline of the settings is each statement's.
pub struct Statements<'c> {
    client: &'c Client,
    tag: u64,
    is_open: bool,
}

impl<'c> Statements<'c> {
    pub(crate) fn open(client: &'c Client, isolation: Isolation) -> Result<Statements<'c>, Error> {
        let tag = client.shared.new_tag();
        client.submit(tag, Wish::Open(isolation)).wait()?;
        Ok(Statements { client, tag, is_open: true })
    }

    fn wait_for(&mut self, wish: Wish) -> Result<Committed, Error> {
        self.client.submit(self.tag, wish).wait()
    }

    /// Reads items.
    ///
    /// # Errors
    /// See [`Error`]; after `Restart` or a deadline the transaction has ended.
    pub fn get_all<K: AsRef<[u8]>>(
        &mut self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>, Error> {
        let keys = keys.into_iter().map(|key| Key::new(key.as_ref())).collect();
        let read = self.wait_for(Wish::Read(keys, Vec::new()))?.read;
        Ok(read.items.into_iter().map(|item| item.value).collect())
    }

    /// Reads all items with keys from `from` on and before `to`, in order.
    ///
    /// # Errors
    /// As `get_all`.
    pub fn scan(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<Vec<(Key, Bytes)>, Error> {
        let range = KeyRange { from: Key::new(from.as_ref()), to: Key::new(to.as_ref()) };
        let read = self.wait_for(Wish::Read(Vec::new(), vec![range]))?.read;
        Ok(read.into_entries())
    }

    /// Buffers a write until the commit.
    ///
    /// # Errors
    /// It does not make one write with what the transaction has already written to the item.
    pub fn write(&mut self, key: impl AsRef<[u8]>, write: Write) -> Result<(), Error> {
        self.wait_for(Wish::Write(Key::new(key.as_ref()), write)).map(drop)
    }

    /// Buffers a value for an item.
    ///
    /// # Errors
    /// As `write`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(key, Write::Put(Bytes::new(value.as_ref())))
    }

    /// Writes what has been buffered. Gives its place in the order of writes, if there was anything.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn commit(mut self) -> Result<Option<Stamp>, Error> {
        self.is_open = false;
        self.wait_for(Wish::Commit).map(|done| done.stamp)
    }
}

impl Drop for Statements<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // Nobody waits for it.
            drop(self.client.submit(self.tag, Wish::RollBack));
        }
    }
}
