//! Choices of the generator: drawn by a seed and recorded, or taken from a record. Choice 0 is always the simplest, so a record that is cut
//! short, or has zeros in it, gives a simpler statement: that is how statements shrink.

use std::ops::Range;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

enum Source {
    Seed(Xoshiro256PlusPlus),
    /// Behind its end all choices are 0.
    Record(Vec<u32>),
}

pub struct Choices {
    source: Source,
    /// All choices so far.
    pub taken: Vec<u32>,
    /// Places of the choices of each part of the statement.
    pub spans: Vec<Range<usize>>,
    open: Vec<usize>,
}

impl Choices {
    pub fn from_seed(seed: u64) -> Choices {
        Choices::of(Source::Seed(Xoshiro256PlusPlus::seed_from_u64(seed)))
    }

    pub fn from_record(record: Vec<u32>) -> Choices {
        Choices::of(Source::Record(record))
    }

    fn of(source: Source) -> Choices {
        Choices { source, taken: Vec::new(), spans: Vec::new(), open: Vec::new() }
    }

    pub fn below(&mut self, sides: usize) -> usize {
        let sides = u32::try_from(sides).expect("a few alternatives");
        let choice = match &mut self.source {
            Source::Seed(chance) => (chance.next_u64() % u64::from(sides)) as u32,
            Source::Record(record) => record.get(self.taken.len()).map_or(0, |choice| choice % sides),
        };
        self.taken.push(choice);
        choice as usize
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) + 1 == times
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// A part of the statement begins.
    pub fn begin(&mut self) {
        self.open.push(self.taken.len());
    }

    pub fn end(&mut self) {
        let from = self.open.pop().expect("what ends has begun");
        self.spans.push(from..self.taken.len());
    }
}
