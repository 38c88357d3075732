//! Parts of messages that cost little memory: a list that is mostly short, and then needs none of its own (the participants of a transaction,
//! the sequences of a stamp), and shared values.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Reads a value that is shared from now on. It is made where it stays; serde would make it elsewhere first.
pub(crate) fn shared<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Arc<T>, D::Error> {
    T::deserialize(deserializer).map(Arc::new)
}

/// A list that is in place up to `N` elements.
#[derive(Clone)]
pub struct Few<T, const N: usize>(Place<T, N>);

impl<T: Copy + Default, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Few(Place::Inline(0, [T::default(); N]))
    }
}

#[derive(Clone)]
enum Place<T, const N: usize> {
    /// So many of the elements, and defaults behind them.
    Inline(u8, [T; N]),
    Heap(Box<[T]>),
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Place::Inline(length, elements) => &elements[..usize::from(*length)],
            Place::Heap(elements) => elements,
        }
    }
}

impl<T: Copy + Default, const N: usize> FromIterator<T> for Few<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        const { assert!(N <= u8::MAX as usize, "the length is a byte") };
        let mut inline = [T::default(); N];
        let mut length = 0;
        let mut elements = elements.into_iter();
        while let Some(element) = elements.next() {
            if length == N {
                let all = inline.into_iter().chain([element]).chain(elements);
                return Few(Place::Heap(all.collect()));
            }
            inline[length] = element;
            length += 1;
        }
        Few(Place::Inline(length as u8, inline))
    }
}

impl<T: Copy + Default, const N: usize, const M: usize> From<[T; M]> for Few<T, N> {
    fn from(elements: [T; M]) -> Self {
        elements.into_iter().collect()
    }
}

impl<T: Copy + Default, const N: usize> From<&[T]> for Few<T, N> {
    fn from(elements: &[T]) -> Self {
        elements.iter().copied().collect()
    }
}

impl<T: Copy + Default, const N: usize, const M: usize> From<&[T; M]> for Few<T, N> {
    fn from(elements: &[T; M]) -> Self {
        elements.iter().copied().collect()
    }
}

impl<T: Copy + Default, const N: usize> From<Vec<T>> for Few<T, N> {
    fn from(elements: Vec<T>) -> Self {
        elements[..].into()
    }
}

impl<T: Copy + Default, const N: usize> From<Box<[T]>> for Few<T, N> {
    fn from(elements: Box<[T]>) -> Self {
        elements[..].into()
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a Few<T, N> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq, const N: usize> PartialEq for Few<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, const N: usize> Eq for Few<T, N> {}

impl<T: PartialOrd, const N: usize> PartialOrd for Few<T, N> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: Ord, const N: usize> Ord for Few<T, N> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: std::hash::Hash, const N: usize> std::hash::Hash for Few<T, N> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for Few<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Serialize, const N: usize> Serialize for Few<T, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de> + Copy + Default, const N: usize> Deserialize<'de> for Few<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

struct Elements<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Copy + Default, const N: usize> Visitor<'de> for Elements<T, N> {
    type Value = Few<T, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Few<T, N>, A::Error> {
        let mut fault = None;
        let read = std::iter::from_fn(|| {
            elements.next_element().unwrap_or_else(|error| {
                fault = Some(error);
                None
            })
        });
        let few = read.collect();
        fault.map_or(Ok(few), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_length_are_what_they_were_made_of() {
        for length in 0..6_u64 {
            let list: Vec<u64> = (10..10 + length).collect();
            let few: Few<u64, 3> = list.clone().into();
            assert_eq!(*few, *list);
            assert_eq!(few, list.iter().copied().collect());
            assert_eq!(matches!(few.0, Place::Heap(_)), length > 3);
        }
        assert!(Few::<u64, 2>::from([1, 2, 3]) < Few::from([1, 3]));
        assert_eq!(format!("{:?}", Few::<u64, 2>::from([1])), "[1]");
    }
}
