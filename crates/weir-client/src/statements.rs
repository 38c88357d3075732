//! A transaction of several statements.

use crate::items::Wish;
use crate::{
    Bytes, Client, Committed, Error, Isolation, Key, KeyRange, ReadSet, Stamp, Write, bytes_of_reads,
    bytes_of_write, too_large,
};

/// Reads that follow from what was read before, and writes that become visible together at the commit. All that it reads is of
/// one state, its own writes included; under `Isolation::ReadCommitted` each statement by itself is. Dropping it rolls
/// it back. The deadline of the settings is each statement's.
pub struct Statements<'c> {
    client: &'c Client,
    tag: u64,
    /// Total bytes of its writes.
    bytes: usize,
    is_open: bool,
}

impl<'c> Statements<'c> {
    pub(crate) fn open(client: &'c Client, isolation: Isolation) -> Result<Statements<'c>, Error> {
        let tag = client.new_tag();
        client.submit(tag, Wish::Open(isolation)).wait()?;
        Ok(Statements { client, tag, bytes: 0, is_open: true })
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
        let read = self.read(keys, Vec::new())?;
        Ok(read.items.into_iter().map(|item| item.value).collect())
    }

    /// Reads all items with keys from `from` on and before `to`, in order.
    ///
    /// # Errors
    /// As `get_all`.
    pub fn scan(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<Vec<(Key, Bytes)>, Error> {
        let range = KeyRange { from: Key::new(from.as_ref()), to: Key::new(to.as_ref()) };
        Ok(self.read(Vec::new(), vec![range])?.into_entries())
    }

    fn read(&mut self, keys: Vec<Key>, ranges: Vec<KeyRange>) -> Result<ReadSet, Error> {
        match too_large(bytes_of_reads(&keys, &ranges)) {
            Some(why) => Err(Error::Unfit(why)),
            None => Ok(self.wait_for(Wish::Read(keys, ranges))?.read),
        }
    }

    /// Buffers a write until the commit.
    ///
    /// # Errors
    /// It does not make one write with what the transaction has already written to the item, or is too much with all that it
    /// has written. The transaction stands.
    pub fn write(&mut self, key: impl AsRef<[u8]>, write: Write) -> Result<(), Error> {
        let key = Key::new(key.as_ref());
        let bytes = self.bytes + bytes_of_write(&key, &write);
        if let Some(why) = too_large(bytes) {
            return Err(Error::Unfit(why));
        }
        self.wait_for(Wish::Write(key, write))?;
        self.bytes = bytes;
        Ok(())
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
            // The result is not needed.
            drop(self.client.submit(self.tag, Wish::RollBack));
        }
    }
}
