//! Where the nodes of a graph go: forces, then a sweep that lets no two labels overlap.
//!
//! Pure and the same every time: no chance, no clock. Quadratic in the nodes, of which a readable picture has few.

/// Steps of the forces, each with smaller moves than the one before.
const STEPS: usize = 400;
/// Sweeps against overlap; most graphs need a handful.
const SWEEPS_MAX: usize = 400;
/// Labels are wide and flat, so that distances count more in width.
const STRETCH: f64 = 1.9;
/// Space between two labels.
const GAP: f64 = 16.0;
/// Space for the edges, per node.
const SPACING: f64 = 95.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// A node's label, as half its width and height.
#[derive(Clone, Copy, Debug)]
pub struct Half {
    pub width: f64,
    pub height: f64,
}

/// Centres of the nodes, and the width and height of the picture around them. `edges` are pairs of nodes.
pub fn layout(nodes: &[Half], edges: &[(usize, usize)], width_min: f64) -> (Vec<Point>, f64, f64) {
    let mut degree = vec![0usize; nodes.len()];
    for &(a, b) in edges.iter().filter(|(a, b)| a != b) {
        degree[a] += 1;
        degree[b] += 1;
    }
    let tied: Vec<usize> = (0..nodes.len()).filter(|&node| degree[node] > 0).collect();
    let mut at = vec![Point { x: 0.0, y: 0.0 }; nodes.len()];
    pull(&mut at, &tied, edges);
    part(&mut at, nodes, &tied);
    let (mut width, mut height) = shift(&mut at, nodes, &tied);
    width = width.max(width_min);
    centre(&mut at, nodes, &tied, width);
    // Nodes without an edge stand in rows below.
    let (mut x, mut row) = (0.0, 0.0);
    for node in (0..nodes.len()).filter(|&node| degree[node] == 0) {
        let half = nodes[node];
        if row == 0.0 || x + 2.0 * half.width > width {
            (x, row) = (0.0, if row == 0.0 { height + 1.5 * GAP } else { row + 2.0 * half.height + GAP });
        }
        at[node] = Point { x: x + half.width, y: row + half.height };
        x += 2.0 * half.width + GAP;
        height = row + 2.0 * half.height;
    }
    (at, width, height)
}

/// Fruchterman and Reingold's forces from a circle: edges pull, nodes push, and all are drawn a little to the middle.
fn pull(at: &mut [Point], tied: &[usize], edges: &[(usize, usize)]) {
    let count = tied.len().max(1) as f64;
    let ideal = SPACING;
    let radius = ideal * count / std::f64::consts::TAU;
    for (index, &node) in tied.iter().enumerate() {
        let angle = std::f64::consts::TAU * index as f64 / count;
        at[node] = Point { x: radius * angle.cos(), y: radius * angle.sin() };
    }
    for step in 0..STEPS {
        let mut force = vec![Point { x: 0.0, y: 0.0 }; at.len()];
        for (index, &a) in tied.iter().enumerate() {
            for &b in &tied[index + 1..] {
                let (dx, dy) = (at[a].x - at[b].x, at[a].y - at[b].y);
                let square = (dx * dx + dy * dy).max(1.0);
                let push = ideal * ideal / square;
                shove(&mut force, a, b, dx * push, dy * push);
            }
            force[a].x -= at[a].x * 0.35;
            force[a].y -= at[a].y * 0.35;
        }
        for &(a, b) in edges.iter().filter(|(a, b)| a != b) {
            let (dx, dy) = (at[a].x - at[b].x, at[a].y - at[b].y);
            let tension = (dx * dx + dy * dy).sqrt() / ideal;
            shove(&mut force, a, b, -dx * tension, -dy * tension);
        }
        let heat = ideal * (1.0 - step as f64 / STEPS as f64);
        for &node in tied {
            let size = (force[node].x.powi(2) + force[node].y.powi(2)).sqrt().max(1e-9);
            let move_by = size.min(heat) / size;
            at[node].x += force[node].x * move_by;
            at[node].y += force[node].y * move_by;
        }
    }
    for &node in tied {
        at[node].x *= STRETCH;
    }
}

fn shove(force: &mut [Point], a: usize, b: usize, x: f64, y: f64) {
    force[a].x += x;
    force[a].y += y;
    force[b].x -= x;
    force[b].y -= y;
}

/// Moves labels that overlap apart, in the direction in which less is needed.
fn part(at: &mut [Point], nodes: &[Half], tied: &[usize]) {
    for _ in 0..SWEEPS_MAX {
        let mut quiet = true;
        for (index, &a) in tied.iter().enumerate() {
            for &b in &tied[index + 1..] {
                let (dx, dy) = (at[b].x - at[a].x, at[b].y - at[a].y);
                let x = nodes[a].width + nodes[b].width + GAP - dx.abs();
                let y = nodes[a].height + nodes[b].height + GAP - dy.abs();
                if x <= 0.01 || y <= 0.01 {
                    continue;
                }
                quiet = false;
                if x < y {
                    let by = x / 2.0 * if dx < 0.0 { -1.0 } else { 1.0 };
                    at[a].x -= by;
                    at[b].x += by;
                } else {
                    let by = y / 2.0 * if dy < 0.0 { -1.0 } else { 1.0 };
                    at[a].y -= by;
                    at[b].y += by;
                }
            }
        }
        if quiet {
            return;
        }
    }
}

/// Puts the picture's corner at the origin; says how large it is.
fn shift(at: &mut [Point], nodes: &[Half], tied: &[usize]) -> (f64, f64) {
    let edge = |of: &dyn Fn(usize) -> f64| tied.iter().map(|&node| of(node)).reduce(f64::min).unwrap_or(0.0);
    let left = edge(&|node| at[node].x - nodes[node].width);
    let top = edge(&|node| at[node].y - nodes[node].height);
    let right = -edge(&|node| -at[node].x - nodes[node].width);
    let bottom = -edge(&|node| -at[node].y - nodes[node].height);
    for &node in tied {
        at[node].x -= left;
        at[node].y -= top;
    }
    (right - left, bottom - top)
}

/// A picture narrower than the page stands in its middle.
fn centre(at: &mut [Point], nodes: &[Half], tied: &[usize], width: f64) {
    let right = tied.iter().map(|&node| at[node].x + nodes[node].width).fold(0.0, f64::max);
    for &node in tied {
        at[node].x += (width - right) / 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(count: usize, edges: &[(usize, usize)]) {
        let nodes: Vec<Half> =
            (0..count).map(|node| Half { width: 30.0 + 5.0 * (node % 7) as f64, height: 14.0 }).collect();
        let (at, width, height) = layout(&nodes, edges, 200.0);
        for a in 0..count {
            assert!(at[a].x - nodes[a].width >= -0.5 && at[a].x + nodes[a].width <= width + 0.5, "{a}");
            assert!(at[a].y - nodes[a].height >= -0.5 && at[a].y + nodes[a].height <= height + 0.5, "{a}");
            for b in a + 1..count {
                let apart_x = (at[a].x - at[b].x).abs() >= nodes[a].width + nodes[b].width;
                let apart_y = (at[a].y - at[b].y).abs() >= nodes[a].height + nodes[b].height;
                assert!(apart_x || apart_y, "{a} and {b} overlap");
            }
        }
        assert_eq!(at, layout(&nodes, edges, 200.0).0);
    }

    #[test]
    fn labels_lie_within_the_picture_and_apart() {
        check(0, &[]);
        check(1, &[(0, 0)]);
        check(5, &[(0, 1), (1, 2), (0, 0), (3, 1)]);
        let all: Vec<(usize, usize)> = (0..26).flat_map(|a| (0..a).map(move |b| (b, a))).collect();
        check(26, &all);
        check(40, &all);
        check(12, &[(0, 1), (2, 3), (4, 5)]);
    }
}
