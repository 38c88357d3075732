//! Tables and columns that no transaction changes: every shard has them all, as in H-Store (eris.txt §8.2, its reference 56).
//!
//! Of texts only those are here that transactions read; whether one has "ORIGINAL" in it is told by a flag.

use weir_core::ids::ShardId;

use super::chance::Chance;
use super::{Cents, CustomerId, DISTRICTS, DistrictId, ItemId, Scale, WarehouseId};

/// An item, ITEM.
#[derive(Clone, Debug)]
pub struct Item {
    pub price: Cents,
    /// I_DATA has "ORIGINAL".
    pub is_original: bool,
}

/// The columns S_DIST_xx and S_DATA of a row of STOCK.
#[derive(Clone, Debug)]
pub struct StockText {
    pub of_districts: [[u8; 24]; DISTRICTS as usize],
    pub is_original: bool,
}

/// Columns of a customer.
#[derive(Clone, Debug)]
pub struct CustomerFacts {
    /// The number of the last name, of which its syllables are made.
    pub name: u16,
    /// In parts of 10,000.
    pub discount: u16,
    /// C_CREDIT is "BC".
    pub has_bad_credit: bool,
}

/// Columns of a district and of its customers.
#[derive(Clone, Debug)]
pub struct DistrictFacts {
    /// In parts of 10,000.
    pub tax: u16,
    pub customers: Vec<CustomerFacts>,
    /// For each last name, the middle one of the customers who have it, by their first names (clause 2.5.2.2).
    by_name: Vec<Option<CustomerId>>,
}

impl DistrictFacts {
    pub fn by_name(&self, name: u16) -> Option<CustomerId> {
        self.by_name.get(usize::from(name)).copied().flatten()
    }
}

/// Columns of a warehouse and of what it has.
#[derive(Clone, Debug)]
pub struct WarehouseFacts {
    /// In parts of 10,000.
    pub tax: u16,
    pub districts: Vec<DistrictFacts>,
    pub stock: Vec<StockText>,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Copied {
    pub scale: Scale,
    pub seed: u64,
    items: Vec<Item>,
    warehouses: Vec<WarehouseFacts>,
}

impl Copied {
    /// Loads the tables of a scale, a function of the seed.
    ///
    /// # Panics
    /// There is no warehouse, or too few items for an order.
    pub fn load(scale: Scale, seed: u64) -> Copied {
        assert!(scale.warehouses > 0 && scale.customers > 0 && scale.items >= 50, "a scale without data");
        let mut chance = Chance::new(seed);
        let item =
            |_| Item { price: chance.between(100, 10_000) as Cents, is_original: chance.is_percent(10) };
        let items = (0..scale.items).map(item).collect();
        let warehouse =
            |id: WarehouseId| warehouse(scale, &mut Chance::new(seed ^ (u64::from(id) + 1) << 32));
        Copied { scale, seed, items, warehouses: (0..scale.warehouses).map(warehouse).collect() }
    }

    /// Loads tables that live as long as the process.
    pub fn leak(scale: Scale, seed: u64) -> &'static Copied {
        Box::leak(Box::new(Copied::load(scale, seed)))
    }

    /// None: the number is unused.
    pub fn item(&self, id: ItemId) -> Option<&Item> {
        self.items.get(id as usize)
    }

    pub fn warehouse(&self, id: WarehouseId) -> &WarehouseFacts {
        &self.warehouses[usize::from(id)]
    }

    pub fn district(&self, warehouse: WarehouseId, id: DistrictId) -> &DistrictFacts {
        &self.warehouse(warehouse).districts[usize::from(id)]
    }

    pub fn customer(&self, warehouse: WarehouseId, district: DistrictId, id: CustomerId) -> &CustomerFacts {
        &self.district(warehouse, district).customers[id as usize]
    }

    /// Warehouses of a shard, ascending.
    pub fn warehouses_of(
        &self,
        shard: ShardId,
        shards: ShardId,
    ) -> impl Iterator<Item = WarehouseId> + use<> {
        (shard..self.scale.warehouses).step_by(usize::from(shards))
    }
}

fn warehouse(scale: Scale, chance: &mut Chance) -> WarehouseFacts {
    WarehouseFacts {
        tax: chance.between(0, 2_000) as u16,
        districts: (0..DISTRICTS).map(|_| district(scale, chance)).collect(),
        stock: (0..scale.items).map(|_| stock_text(chance)).collect(),
    }
}

fn stock_text(chance: &mut Chance) -> StockText {
    StockText { of_districts: std::array::from_fn(|_| chance.letters()), is_original: chance.is_percent(10) }
}

fn district(scale: Scale, chance: &mut Chance) -> DistrictFacts {
    let tax = chance.between(0, 2_000) as u16;
    let mut first_names: Vec<Vec<([u8; 16], CustomerId)>> = vec![Vec::new(); super::NAMES as usize];
    let mut customers = Vec::with_capacity(scale.customers as usize);
    for id in 0..scale.customers {
        let name = if id < super::NAMES { id as u16 } else { chance.loaded_name() };
        first_names[usize::from(name)].push((chance.letters(), id));
        let discount = chance.between(0, 5_000) as u16;
        customers.push(CustomerFacts { name, discount, has_bad_credit: chance.is_percent(10) });
    }
    let middle = |mut named: Vec<([u8; 16], CustomerId)>| {
        named.sort_unstable();
        // The one at n/2, rounded up, counted from 1.
        named.get(named.len().div_ceil(2).saturating_sub(1)).map(|(_, id)| *id)
    };
    DistrictFacts { tax, customers, by_name: first_names.into_iter().map(middle).collect() }
}
