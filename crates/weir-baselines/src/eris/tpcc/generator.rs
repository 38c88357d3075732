//! The transactions of clients in the mix of the minimum percentages (clause 5.2.3): a pure function of the scale and a seed.
//!
//! Each transaction has a warehouse drawn for it, and none waits.

use super::chance::Chance;
use super::copied::Copied;
use super::procedure::{Call, Line, NewOrder, Payment, Procedure, Selected};
use super::{DISTRICTS, DistrictId, ItemId, WarehouseId};

/// The transactions of a client.
#[derive(Clone, Debug)]
pub struct Generator {
    copied: &'static Copied,
    chance: Chance,
    /// Transactions drawn so far, which are the clock of dates.
    drawn: u64,
}

impl Generator {
    pub fn new(copied: &'static Copied, seed: u64) -> Generator {
        Generator { copied, chance: Chance::new(seed), drawn: 0 }
    }

    /// The same data from another seed.
    pub fn with_seed(&self, seed: u64) -> Generator {
        Generator::new(self.copied, seed)
    }

    pub fn copied(&self) -> &'static Copied {
        self.copied
    }

    /// The next transaction: 45% New-Order, 43% Payment, and 4% of each other one.
    pub fn draw(&mut self) -> Call {
        self.drawn += 1;
        let warehouse = self.chance.below(u64::from(self.copied.scale.warehouses)) as WarehouseId;
        let procedure = match self.chance.below(100) {
            0..45 => Procedure::NewOrder(self.new_order(warehouse)),
            45..88 => Procedure::Payment(self.payment(warehouse)),
            88..92 => {
                let district = self.district();
                let customer = self.selected(warehouse, district);
                Procedure::OrderStatus { warehouse, district, customer }
            }
            92..96 => {
                let carrier = self.chance.between(1, 10) as u8;
                Procedure::Delivery { warehouse, carrier, at_ms: self.drawn }
            }
            _ => {
                let threshold = self.chance.between(10, 20) as i16;
                Procedure::StockLevel { warehouse, district: self.district(), threshold }
            }
        };
        Call(procedure.into())
    }

    fn district(&mut self) -> DistrictId {
        self.chance.below(u64::from(DISTRICTS)) as DistrictId
    }

    /// Another warehouse, if there is one.
    fn other_than(&mut self, warehouse: WarehouseId) -> WarehouseId {
        let others = u64::from(self.copied.scale.warehouses) - 1;
        if others == 0 {
            return warehouse;
        }
        let drawn = self.chance.below(others) as WarehouseId;
        if drawn < warehouse { drawn } else { drawn + 1 }
    }

    /// By the last name in 60% of the cases.
    fn selected(&mut self, warehouse: WarehouseId, district: DistrictId) -> Selected {
        let scale = self.copied.scale;
        if self.chance.is_percent(60) {
            let name = self.chance.name(scale);
            if let Some(customer) = self.copied.district(warehouse, district).by_name(name) {
                return Selected::ByName(name, customer);
            }
        }
        Selected::ByNumber(self.chance.customer(scale))
    }

    /// Each line is supplied by another warehouse in 1% of the cases, and 1% of the orders end with an unused item number (clause 2.4.1).
    fn new_order(&mut self, warehouse: WarehouseId) -> NewOrder {
        let scale = self.copied.scale;
        let count = self.chance.between(5, 15) as usize;
        let mut lines: Vec<Line> = Vec::with_capacity(count);
        while lines.len() < count {
            let item = self.chance.item(scale);
            if lines.iter().any(|line| line.item == item) {
                continue;
            }
            let is_remote = self.chance.is_percent(1);
            let supply = if is_remote { self.other_than(warehouse) } else { warehouse };
            lines.push(Line { item, supply, quantity: self.chance.between(1, 10) as u8 });
        }
        if self.chance.is_percent(1) {
            lines[count - 1].item = scale.items as ItemId;
        }
        let district = self.district();
        let customer = self.chance.customer(scale);
        NewOrder { warehouse, district, customer, entered_ms: self.drawn, lines }
    }

    /// The customer is of another warehouse in 15% of the cases (clause 2.5.1).
    fn payment(&mut self, warehouse: WarehouseId) -> Payment {
        let district = self.district();
        let is_remote = self.chance.is_percent(15);
        let (of_warehouse, of_district) =
            if is_remote { (self.other_than(warehouse), self.district()) } else { (warehouse, district) };
        let customer = self.selected(of_warehouse, of_district);
        let amount = self.chance.between(100, 500_000) as i64;
        Payment { warehouse, district, of_warehouse, of_district, customer, amount, paid_ms: self.drawn }
    }
}
