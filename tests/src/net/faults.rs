//! What a network does wrong. Pure: it becomes rules for the bridge, which drops without a word
//! to the sender, as a bad cable does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What is wrong, by the numbers of the ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    cut: BTreeSet<(usize, usize)>,
    alone: BTreeSet<usize>,
    loss: BTreeMap<usize, u8>,
    loss_everywhere: u8,
}

impl Faults {
    /// Nothing that `from` sends arrives at `to`.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.cut.insert((from, to));
    }

    /// Nothing arrives there, and nothing from there.
    pub fn cut_node(&mut self, port: usize) {
        self.alone.insert(port);
    }

    /// So many of a hundred packets are lost, in either direction.
    pub fn lose(&mut self, port: usize, percent: u8) {
        self.loss.insert(port, percent);
    }

    /// So many of a hundred packets are lost between any two.
    pub fn lose_everywhere(&mut self, percent: u8) {
        self.loss_everywhere = percent;
    }

    /// The rules for `nft -f`, which take the place of those before. Who has which address is
    /// told all the same: a firewall that is set wrong leaves ARP alone, too.
    pub fn rules(&self) -> String {
        let mut rules = "add table bridge faults\ndelete table bridge faults\n\
             table bridge faults {\n chain forward {\n  \
             type filter hook forward priority 0; policy accept;\n  ether type arp accept\n"
            .to_owned();
        for (from, to) in &self.cut {
            let _ = writeln!(rules, "  iifname \"p{from}\" oifname \"p{to}\" drop");
        }
        for port in &self.alone {
            for side in ["iifname", "oifname"] {
                let _ = writeln!(rules, "  {side} \"p{port}\" drop");
            }
        }
        let random = "numgen random mod 100";
        for (port, percent) in &self.loss {
            for side in ["iifname", "oifname"] {
                let _ = writeln!(rules, "  {side} \"p{port}\" {random} < {percent} drop");
            }
        }
        if self.loss_everywhere > 0 {
            let _ = writeln!(rules, "  {random} < {} drop", self.loss_everywhere);
        }
        rules + " }\n}\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_become_rules() {
        let mut faults = Faults::default();
        let healthy = faults.rules();
        assert!(!healthy.contains("drop"), "{healthy}");
        faults.cut(1, 3);
        faults.cut_node(2);
        faults.lose(4, 20);
        faults.lose_everywhere(5);
        let drops: Vec<String> = faults
            .rules()
            .lines()
            .filter(|line| line.ends_with("drop"))
            .map(|line| line.trim().to_owned())
            .collect();
        assert_eq!(
            drops,
            [
                "iifname \"p1\" oifname \"p3\" drop",
                "iifname \"p2\" drop",
                "oifname \"p2\" drop",
                "iifname \"p4\" numgen random mod 100 < 20 drop",
                "oifname \"p4\" numgen random mod 100 < 20 drop",
                "numgen random mod 100 < 5 drop",
            ]
        );
    }
}
