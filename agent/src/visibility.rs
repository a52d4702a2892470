//! Who hears whom, as the votes of watchers show it: islands and one-way links. Pure; who has the
//! votes asks.

use muster_model::mesh::{MemberReach, OneWay};

/// A member, as this node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenMember<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it can be reached.
    pub reach: MemberReach,
}

/// A watcher and one it watches, as places in the list of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLink {
    /// Who asks.
    pub watcher: usize,
    /// Who is to answer.
    pub subject: usize,
    /// What the watcher holds against it.
    pub works: Works,
}

/// How a link works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Works {
    /// Questions arrive and answers come back: the watcher has no vote against the subject.
    BothWays,
    /// The subject does not answer, but what it sends of itself arrives.
    OnlyBack,
    /// Nothing is heard of the subject.
    Not,
}

/// Groups of members that hear each other, at least over others, the largest first. An
/// unreachable member alone is just unreachable, no island.
pub fn islands(members: &[SeenMember<'_>], links: &[WatchLink]) -> Vec<Vec<String>> {
    let mut root: Vec<usize> = (0..members.len()).collect();
    for link in links.iter().filter(|link| joins(members, link)) {
        let (one, other) = (find(&mut root, link.watcher), find(&mut root, link.subject));
        // The lower place wins, so that the order of links does not matter.
        root[one.max(other)] = one.min(other);
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); members.len()];
    for place in 0..members.len() {
        groups[find(&mut root, place)].push(place);
    }
    groups.retain(|group| match group[..] {
        [] => false,
        [alone] => members[alone].reach != MemberReach::Unreachable,
        _ => true,
    });
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let name = |place: usize| members[place].name.to_owned();
    groups
        .into_iter()
        .map(|group| group.into_iter().map(name).collect())
        .collect()
}

/// Votes of members that cannot be reached do not arrive: that they have none against those here
/// says nothing.
fn joins(members: &[SeenMember<'_>], link: &WatchLink) -> bool {
    let away = |place: usize| {
        members
            .get(place)
            .map(|one| one.reach == MemberReach::Unreachable)
    };
    let known = away(link.watcher).is_some();
    link.works == Works::BothWays && known && away(link.watcher) == away(link.subject)
}

fn find(root: &mut [usize], mut place: usize) -> usize {
    while root[place] != place {
        root[place] = root[root[place]];
        place = root[place];
    }
    place
}

/// Links that work in one direction only, in the order of names.
pub fn one_way(members: &[SeenMember<'_>], links: &[WatchLink]) -> Vec<OneWay> {
    let name = |place: usize| members.get(place).map(|one| one.name.to_owned());
    let cut = links.iter().filter(|link| link.works == Works::OnlyBack);
    let mut cut: Vec<OneWay> = cut
        .filter_map(|link| {
            Some(OneWay {
                from: name(link.subject)?,
                to: name(link.watcher)?,
            })
        })
        .collect();
    cut.sort();
    cut.dedup();
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    /// Six members that all watch each other. `away` cannot be reached; `cut` lists pairs of
    /// watcher and subject that do not work.
    fn islands_of(away: &str, cut: &[(&str, Works)]) -> Vec<String> {
        let (members, links) = mesh(away, cut);
        let islands = islands(&members, &links);
        islands.into_iter().map(|names| names.concat()).collect()
    }

    fn mesh(away: &str, cut: &[(&str, Works)]) -> (Vec<SeenMember<'static>>, Vec<WatchLink>) {
        let reach = |name: &str| match away.contains(name) {
            true => MemberReach::Unreachable,
            false => MemberReach::Alive,
        };
        let members = NAMES.map(|name| SeenMember {
            name,
            reach: reach(name),
        });
        let works = |pair: &str| {
            let found = cut.iter().find(|(one, _)| *one == pair);
            found.map_or(Works::BothWays, |(_, works)| *works)
        };
        let pairs = (0..6).flat_map(|watcher| (0..6).map(move |subject| (watcher, subject)));
        let links =
            pairs
                .filter(|(watcher, subject)| watcher != subject)
                .map(|(watcher, subject)| WatchLink {
                    watcher,
                    subject,
                    works: works(&format!("{}{}", NAMES[watcher], NAMES[subject])),
                });
        (members.into(), links.collect())
    }

    #[test]
    fn a_whole_mesh_is_one_island_and_a_dead_node_none() {
        assert_eq!(islands_of("", &[]), ["abcdef"]);
        let dead = ["ac", "bc", "dc", "ec", "fc"].map(|pair| (pair, Works::Not));
        assert_eq!(islands_of("c", &dead), ["abdef"]);
        assert_eq!(islands(&[], &[]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_half_that_is_cut_off_is_an_island() {
        // Only this half's votes arrive here.
        let votes =
            ["ad", "ae", "af", "bd", "be", "bf", "cd", "ce", "cf"].map(|pair| (pair, Works::Not));
        assert_eq!(islands_of("def", &votes), ["abc", "def"]);
    }

    #[test]
    fn who_hears_others_over_a_third_is_no_island() {
        let bridge = ["ac", "ca"].map(|pair| (pair, Works::Not));
        assert_eq!(islands_of("", &bridge), ["abcdef"]);
    }

    #[test]
    fn one_that_hears_nobody_and_answers_nobody_stands_alone() {
        let votes = ["ab", "ac", "ad", "ae", "af", "ba", "ca", "da", "ea", "fa"]
            .map(|pair| (pair, Works::Not));
        assert_eq!(islands_of("", &votes), ["bcdef", "a"]);
    }

    #[test]
    fn one_way_links_name_the_way_that_works() {
        let cut = [
            ("ab", Works::OnlyBack),
            ("cd", Works::Not),
            ("ba", Works::BothWays),
        ];
        let (members, links) = mesh("", &cut);
        let told = one_way(&members, &links);
        let told: Vec<String> = told
            .iter()
            .map(|l| format!("{}>{}", l.from, l.to))
            .collect();
        assert_eq!(told, ["b>a"]);
    }
}
