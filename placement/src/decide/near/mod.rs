//! Gangs whose members must be near: the ordinary search first, and if what it finds is not near
//! enough, one that looks only at places that are.
//!
//! A member's pods are alike, so for one member this is exact. Members that ask for different
//! things are placed one after the other, each in what the ones before it left, so a gang of
//! several such members may have to wait where another order would fit.

mod check;
mod inside;
mod parts;
mod refuse;
mod together;

use std::borrow::Cow;

use muster_model::cluster_spec::Level;

use super::fit::{across, anywhere};
use super::need::{Need, Spot};
use crate::index::{LeafView, NearPart, at, small};

pub(super) use check::{holds, stays};
use inside::InnerView;
pub(super) use inside::into_bin;
pub(super) use parts::{PodBatch, parts};
pub(super) use refuse::check as refuse;

/// Spots by pod in one view.
pub(super) fn fit(view: &LeafView, need: &Need) -> Option<Vec<Spot>> {
    if let Some(spots) = anywhere(view, need).filter(|spots| holds(&[view], need, spots)) {
        return Some(spots);
    }
    one_by_one(&[view], need, |views, part| match part.level {
        Some(level) => near(&views[0], level, part.pods.len(), part.size),
        None => anywhere(&views[0], &part.need(need)),
    })
}

/// Spots by pod in several views.
pub(super) fn fit_across(views: &[&LeafView], need: &Need) -> Option<Vec<Spot>> {
    if let Some(spots) = across(views, need).filter(|spots| holds(views, need, spots)) {
        return Some(spots);
    }
    one_by_one(views, need, |views, part| match part.level {
        Some(level) => near_across(views, level, part.pods.len(), part.size),
        None => across(&borrow(views), &part.need(need)),
    })
}

fn borrow<'a>(views: &'a [Cow<'_, LeafView>]) -> Vec<&'a LeafView> {
    views.iter().map(|view| &**view).collect()
}

/// Every part of the gang in what the parts before it left.
fn one_by_one(
    views: &[&LeafView],
    need: &Need,
    place: impl Fn(&[Cow<'_, LeafView>], &PodBatch) -> Option<Vec<Spot>>,
) -> Option<Vec<Spot>> {
    let mut left: Vec<Cow<'_, LeafView>> = views.iter().map(|view| Cow::Borrowed(*view)).collect();
    let mut spots = vec![Spot::NOWHERE; need.sizes.len()];
    let mut parts = parts(need).into_iter().peekable();
    while let Some(part) = parts.next() {
        let found = place(&left, &part)?;
        for (pod, spot) in part.pods.iter().zip(&found) {
            spots[*pod] = *spot;
        }
        if parts.peek().is_some() {
            take(&mut left, &found);
        }
    }
    Some(spots)
}

fn take(views: &mut [Cow<'_, LeafView>], spots: &[Spot]) {
    for spot in spots {
        let view = views[spot.view].to_mut();
        let mask = view.mask(at(spot.bin));
        view.set(at(spot.bin), mask & !spot.mask);
    }
    for view in views {
        if let Cow::Owned(view) = view {
            view.settle();
        }
    }
}

/// `n` pods of `k` leaves each in one view.
fn near(view: &LeafView, level: Level, n: usize, k: u32) -> Option<Vec<Spot>> {
    let need = Need::near(level, n, k);
    // Where equal pods fit nowhere, they do not fit near to each other.
    let spots = anywhere(view, &need)?;
    if holds(&[view], &need, &spots) {
        return Some(spots);
    }
    // A told rack was looked for above: there is no part then.
    let part = view.frame.shape.near_part(level)?;
    match part {
        NearPart::Cells(own) if !level.is_inside_node() => together::fit(view, own, small(n), k),
        part => {
            let inside = InnerView::new(view, part, k)?;
            Some(inside.spots(&anywhere(&inside.view, &need)?))
        }
    }
}

/// The same in several views; a cell of a node or more is looked for in one after the other.
fn near_across(views: &[Cow<'_, LeafView>], level: Level, n: usize, k: u32) -> Option<Vec<Spot>> {
    if !level.is_inside_node() {
        return views.iter().enumerate().find_map(|(number, view)| {
            let spots = near(view, level, n, k)?.into_iter();
            Some(
                spots
                    .map(|spot| Spot {
                        view: number,
                        ..spot
                    })
                    .collect(),
            )
        });
    }
    let inside = views.iter().enumerate().filter_map(|(number, view)| {
        let part = view.frame.shape.near_part(level)?;
        Some((number, InnerView::new(view, part, k)?))
    });
    let (numbers, inside): (Vec<usize>, Vec<InnerView>) = inside.unzip();
    let found: Vec<&LeafView> = inside.iter().map(|inside| &*inside.view).collect();
    let spots = across(&found, &Need::uniform(n, k))?.into_iter();
    let spots = spots.map(|spot| Spot {
        view: numbers[spot.view],
        ..inside[spot.view].spot(&spot)
    });
    Some(spots.collect())
}

#[cfg(test)]
mod tests;
