//! An item of which only the newest version is kept.

use weir_kv::write::Content;
use weir_kv::{ItemRead, Stamp};

#[derive(Debug)]
pub struct Row {
    pub content: Content,
    pub stamp: Stamp,
}

impl Default for Row {
    fn default() -> Row {
        Row { content: Content::Absent, stamp: Stamp::NONE }
    }
}

impl Row {
    pub fn read(&self) -> ItemRead {
        ItemRead { value: self.content.value(), stamp: self.stamp }
    }
}
