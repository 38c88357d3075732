//! Texts whose constants are parameters: what was prepared for one runs any other that differs in its constants only.

use weir_sql::shape::{Constant, ConstantKind, Shape};
use weir_sql::{BoundText, ParsedText, lift_constants};
use weir_types::{SqlType, Value};

use crate::calls::argument;
use crate::prepared::Prepared;
use crate::schema_versions::SchemaVersion;

/// A text that was prepared without its constants.
#[derive(Clone, Debug)]
pub struct Parameterised {
    pub prepared: Prepared,
    /// By parameter.
    places: Vec<Place>,
    /// Constants that are none: which, and what stands there.
    fixed: Vec<(usize, String)>,
}

/// Which constant of a text a parameter is.
#[derive(Clone, Copy, Debug)]
struct Place {
    constant: usize,
    is_negative: bool,
}

impl Place {
    fn value(self, text: &str, constant: &Constant, ty: &SqlType) -> Option<Value> {
        let written = constant.written(text);
        let value = match constant.kind {
            ConstantKind::Integer | ConstantKind::Bigint if self.is_negative => {
                // The least bigint has no positive one.
                Value::Int(i64::try_from(-i128::from(written.parse::<u64>().ok()?)).ok()?)
            }
            ConstantKind::Integer | ConstantKind::Bigint => Value::Int(written.parse().ok()?),
            ConstantKind::Numeric if self.is_negative => Value::text(format!("-{written}")),
            ConstantKind::Numeric | ConstantKind::Text => Value::text(written),
        };
        argument(&value, ty).ok()
    }
}

impl SchemaVersion {
    /// Prepares the text, which has no parameters, so that others of its shape can be run by it. `None` where that cannot be.
    pub fn lift(&self, text: &str, shape: &Shape) -> Option<Parameterised> {
        let application = &self.0.application;
        let parsed = ParsedText::of(text).ok()?;
        let (bound, parameters) = parsed.bind(&application.catalog, &application.procedures, &[]).ok()?;
        let BoundText::Statement(statement) = bound else { return None };
        if !parameters.is_empty() {
            return None;
        }
        if shape.constants.is_empty() {
            let prepared = self.prepare(text, &[]).ok()?;
            return Some(Parameterised { prepared, places: Vec::new(), fixed: Vec::new() });
        }
        let parameterised = lift_constants(&application.catalog, &parsed, &statement, &[])?;
        let place = |&(start, end): &(usize, usize)| {
            let constant = shape.constants.iter().position(|one| one.end == end && one.start >= start)?;
            let is_negative = shape.constants[constant].start > start;
            Some(Place { constant, is_negative })
        };
        let places: Vec<Place> = parameterised.places.iter().map(place).collect::<Option<_>>()?;
        let value = |place: &Place, ty| place.value(text, &shape.constants[place.constant], ty);
        let mut values = places.iter().zip(&parameterised.text.types).zip(&parameterised.values);
        if !values.all(|((place, ty), known)| {
            can_be_any(shape, place, ty) && value(place, ty).as_ref() == Some(known)
        }) {
            return None;
        }
        let is_fixed = |at: &usize| !places.iter().any(|place| place.constant == *at);
        let fixed = (0..shape.constants.len()).filter(is_fixed);
        let fixed = fixed.map(|at| (at, shape.constants[at].written(text).into_owned())).collect();
        let prepared =
            self.prepare(&parameterised.text.sql, &parameterised.text.types).ok().filter(Prepared::runs)?;
        Some(Parameterised { prepared, places, fixed })
    }
}

/// Returns whether every constant of the shape's kind has that type.
fn can_be_any(shape: &Shape, place: &Place, ty: &SqlType) -> bool {
    match shape.constants[place.constant].kind {
        ConstantKind::Integer => matches!(ty, SqlType::Int4 | SqlType::Int8 | SqlType::Numeric(_)),
        ConstantKind::Bigint => matches!(ty, SqlType::Int8 | SqlType::Numeric(_)),
        ConstantKind::Numeric => matches!(ty, SqlType::Numeric(_)),
        // An invalid text constant is reported later, where its position is known.
        ConstantKind::Text => true,
    }
}

impl Parameterised {
    /// The values of the parameters in a text of the same shape. `None`: it is another statement, or a constant is wrong.
    pub fn values(&self, text: &str, shape: &Shape) -> Option<Vec<Value>> {
        if self.fixed.iter().any(|(at, written)| shape.constants[*at].written(text) != *written) {
            return None;
        }
        let types = self.prepared.parameters();
        let value = |(place, ty): (&Place, _)| place.value(text, &shape.constants[place.constant], ty);
        self.places.iter().zip(types).map(value).collect()
    }
}
