//! Nodes joined by a bridge.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{BareNode, Faults, Namespace, sweep};
use crate::home::muster;

/// Where the default route leads: nowhere, but agents look for it.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 255, 254);
/// The same for nodes that have IPv6.
const GATEWAY_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0xfffe);
/// From so many nodes on they are told each other's hardware addresses. What they would learn of
/// each other by ARP is held in a table that all namespaces of the machine share; it holds 1,024
/// entries unless root says otherwise, and each of 50 agents speaks to some 25 others.
const TOLD_FROM: usize = 16;
/// How long cables may take to be up.
const UP_LIMIT: Duration = Duration::from_secs(10);

/// Nodes numbered from 1, none of them started. Dropping it ends every agent and leaves nothing.
#[derive(Debug)]
pub struct Lan {
    nodes: Vec<BareNode>,
    ports: usize,
    faults: Faults,
    bridge: Namespace,
    /// Dropped last: the agents write there.
    dir: tempfile::TempDir,
}

impl Lan {
    /// Makes `nodes` nodes that run the `muster` of this build.
    ///
    /// # Errors
    /// When the network cannot be made.
    pub fn new(nodes: usize) -> Result<Self> {
        Self::running(&muster()?, nodes)
    }

    /// Makes `nodes` nodes that run this binary.
    ///
    /// # Errors
    /// When the network cannot be made.
    pub fn running(muster: &Path, nodes: usize) -> Result<Self> {
        sweep::sweep();
        let dir = tempfile::Builder::new()
            .prefix(&sweep::prefix())
            .tempdir()?;
        let bridge = Namespace::new()?;
        let lines = format!(
            "link add br0 type bridge mcast_snooping 0\naddr add {GATEWAY}/16 dev br0\n\
             link set br0 up\n"
        );
        bridge.run("ip", &["-batch", "-"], &lines)?;
        let mut lan = Self {
            nodes: Vec::new(),
            ports: 0,
            faults: Faults::default(),
            bridge,
            dir,
        };
        for _ in 0..nodes {
            let (number, namespace) = lan.plug()?;
            let home = lan.dir.path().join(format!("n{number}"));
            lan.nodes
                .push(BareNode::new(muster, home, number, Arc::new(namespace))?);
        }
        if nodes >= TOLD_FROM {
            lan.tell_neighbours()?;
        }
        lan.wait_until_up()?;
        Ok(lan)
    }

    /// Gives every node the hardware addresses of all others. What is given for good is not
    /// counted against the kernel's limit.
    fn tell_neighbours(&self) -> Result<()> {
        for node in &self.nodes {
            let others = self.nodes.iter().filter(|o| o.number() != node.number());
            let lines: String = others.map(neighbour).collect();
            node.namespace().run("ip", &["-batch", "-"], &lines)?;
        }
        Ok(())
    }

    /// The kernel takes up to a second to see that a new cable has two ends.
    fn wait_until_up(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            let ports = self.bridge.run("bridge", &["link", "show"], "")?;
            let up = ports.matches("state forwarding").count();
            if up == self.ports {
                return Ok(());
            }
            ensure!(
                start.elapsed() < UP_LIMIT,
                "{up} of {}: {ports}",
                self.ports
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A namespace on the bridge that has no agent: for strangers.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn guest(&mut self) -> Result<Namespace> {
        let (_, namespace) = self.plug()?;
        self.wait_until_up()?;
        Ok(namespace)
    }

    /// A namespace at the next port of the bridge, and the number of that.
    fn plug(&mut self) -> Result<(usize, Namespace)> {
        let namespace = Namespace::new()?;
        self.ports += 1;
        let number = self.ports;
        let path = namespace.path();
        let lines = format!(
            "link add p{number} type veth peer name eth0 address {} netns {path}\n\
             link set p{number} master br0 up\n",
            hardware_address(number)
        );
        self.bridge.run("ip", &["-batch", "-"], &lines)?;
        settle(&namespace, ipv4(number, 0))?;
        Ok((number, namespace))
    }

    /// The node with this number, from 1.
    pub fn node(&self, number: usize) -> &BareNode {
        &self.nodes[number - 1]
    }

    /// The node with this number, from 1.
    pub fn node_mut(&mut self, number: usize) -> &mut BareNode {
        &mut self.nodes[number - 1]
    }

    /// All of them.
    pub fn nodes(&self) -> &[BareNode] {
        &self.nodes
    }

    /// Makes a node's home a copy of another's, as copying a machine's disk does. Neither may run.
    ///
    /// # Errors
    /// When the files cannot be copied.
    pub fn copy_home(&self, from: usize, to: usize) -> Result<()> {
        let (from, to) = (self.node(from).home(), self.node(to).home());
        std::fs::remove_dir_all(to)?;
        let status = Command::new("cp").arg("-a").args([from, to]).status()?;
        ensure!(status.success(), "cp: {status}");
        Ok(())
    }

    /// Starts every agent that does not run, all at once.
    ///
    /// # Errors
    /// When one does not come up.
    pub fn start(&mut self) -> Result<()> {
        let nodes = self.nodes.iter_mut().filter(|node| !node.runs());
        at_once(nodes, BareNode::start)
    }

    /// Ends every agent that runs, all at once.
    ///
    /// # Errors
    /// When one does not end well.
    pub fn stop(&mut self) -> Result<()> {
        let nodes = self.nodes.iter_mut().filter(|node| node.runs());
        at_once(nodes, BareNode::stop)
    }

    /// Loses so many of a hundred packets to and from a node. 0 for none.
    ///
    /// # Errors
    /// When the bridge's rules cannot be set.
    pub fn lose(&mut self, node: usize, percent: u8) -> Result<()> {
        self.faults.lose(node, percent);
        self.apply()
    }

    /// Loses so many of a hundred packets between any two nodes. 0 for none.
    ///
    /// # Errors
    /// When the bridge's rules cannot be set.
    pub fn lose_everywhere(&mut self, percent: u8) -> Result<()> {
        self.faults.lose_everywhere(percent);
        self.apply()
    }

    /// Lets nothing that `from` sends arrive at `to`; the other direction works.
    ///
    /// # Errors
    /// When the bridge's rules cannot be set.
    pub fn cut(&mut self, from: usize, to: usize) -> Result<()> {
        self.faults.cut(from, to);
        self.apply()
    }

    /// Cuts a node off.
    ///
    /// # Errors
    /// When the bridge's rules cannot be set.
    pub fn cut_node(&mut self, node: usize) -> Result<()> {
        self.faults.cut_node(node);
        self.apply()
    }

    /// Cuts the nodes up to `last` off from those after it.
    ///
    /// # Errors
    /// When the bridge's rules cannot be set.
    pub fn split(&mut self, last: usize) -> Result<()> {
        for left in 1..=last {
            for right in last + 1..=self.nodes.len() {
                self.faults.cut(left, right);
                self.faults.cut(right, left);
            }
        }
        self.apply()
    }

    /// Takes back every loss and cut.
    ///
    /// # Errors
    /// When the bridge's rules cannot be set.
    pub fn heal(&mut self) -> Result<()> {
        self.impose(Faults::default())
    }

    /// Puts these losses and cuts in the place of all those before, at once.
    ///
    /// # Errors
    /// When the bridge's rules cannot be set.
    pub fn impose(&mut self, faults: Faults) -> Result<()> {
        self.faults = faults;
        self.apply()
    }

    fn apply(&self) -> Result<()> {
        self.bridge.run("nft", &["-f", "-"], &self.faults.rules())?;
        Ok(())
    }

    /// Delays what arrives at a node, in milliseconds.
    ///
    /// # Errors
    /// When the kernel has no `netem`, which is the only thing that delays.
    pub fn delay(&self, node: usize, milliseconds: u32) -> Result<()> {
        let (port, time) = (format!("p{node}"), format!("{milliseconds}ms"));
        let arguments = [
            "qdisc", "replace", "dev", &port, "root", "netem", "delay", &time,
        ];
        self.bridge.run("tc", &arguments, "").context("no netem")?;
        Ok(())
    }

    /// Gives a node another address and takes away that which it has.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn move_address(&mut self, node: usize) -> Result<()> {
        let node = self.node_mut(node);
        node.moves += 1;
        let next = ipv4(node.number(), node.moves);
        node.namespace()
            .run("ip", &["addr", "flush", "dev", "eth0"], "")?;
        settle(node.namespace(), next)?;
        node.address = next.into();
        Ok(())
    }

    /// Takes the IPv4 address of every node away and gives it one of IPv6 in its place.
    ///
    /// # Errors
    /// When the kernel refuses, as one without IPv6 does.
    pub fn move_to_ipv6(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            let next = ipv6(node.number());
            node.namespace()
                .run("ip", &["-4", "addr", "flush", "dev", "eth0"], "")?;
            settle_ipv6(node.namespace(), next)?;
            node.address = next.into();
        }
        Ok(())
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        if let Some(kept) = std::env::var_os("MUSTER_TEST_LOGS") {
            let kept = PathBuf::from(kept).join(self.dir.path().file_name().unwrap_or_default());
            // For a person who looks into a failure.
            let _ = std::fs::create_dir_all(&kept);
            for node in &self.nodes {
                let log = kept.join(node.name());
                let _ = std::fs::copy(node.home().join("agent.log"), log);
            }
        }
    }
}

/// Does the same to many nodes at once; the first error of all.
fn at_once<'a>(
    nodes: impl Iterator<Item = &'a mut BareNode>,
    run: impl Fn(&mut BareNode) -> Result<()> + Copy + Send,
) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = nodes.map(|node| scope.spawn(move || run(node))).collect();
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })
}

/// Node `number`'s address after so many moves.
pub(super) fn ipv4(number: usize, moves: u8) -> Ipv4Addr {
    let number = u8::try_from(number).unwrap_or(u8::MAX);
    Ipv4Addr::new(10, 77, moves, number)
}

/// Node `number`'s address of IPv6, in a network that is nobody else's.
fn ipv6(number: usize) -> Ipv6Addr {
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number)
}

/// Node `number`'s hardware address: one that no maker of hardware gives out.
fn hardware_address(number: usize) -> String {
    format!("02:00:00:00:00:{number:02x}")
}

/// Says where a node is, as long as it does not move.
fn neighbour(node: &BareNode) -> String {
    format!(
        "neigh replace {} lladdr {} dev eth0 nud permanent\n",
        node.address(),
        hardware_address(node.number())
    )
}

/// Gives a namespace its address. IPv6 is left out: it would talk on its own.
fn settle(namespace: &Namespace, address: Ipv4Addr) -> Result<()> {
    let lines = format!(
        "link set eth0 addrgenmode none\naddr add {address}/16 brd + dev eth0\n\
         link set eth0 up\nroute replace default via {GATEWAY}\n"
    );
    namespace.run("ip", &["-batch", "-"], &lines)?;
    Ok(())
}

/// Gives a namespace its address of IPv6, unchecked: nobody else has it.
fn settle_ipv6(namespace: &Namespace, address: Ipv6Addr) -> Result<()> {
    let lines = format!(
        "addr add {address}/64 dev eth0 nodad\nroute replace default via {GATEWAY_IPV6} dev eth0\n"
    );
    namespace.run("ip", &["-6", "-batch", "-"], &lines)?;
    // The kernel makes even such an address usable a moment later, from a queue of its own. Who
    // asks for it before hears nothing, and asks again after a second.
    let tentative = ["-6", "addr", "show", "dev", "eth0", "tentative"];
    let deadline = Instant::now() + UP_LIMIT;
    while !namespace.run("ip", &tentative, "")?.is_empty() {
        ensure!(Instant::now() < deadline, "{address} stays tentative");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::net::{missing, missing_ipv6};

    const PATIENCE: Duration = Duration::from_millis(200);

    /// Two nodes that run nothing, with a socket in each.
    fn pair() -> Result<(Lan, UdpSocket, UdpSocket)> {
        let lan = Lan::running("none".as_ref(), 2)?;
        let (one, two) = (socket(&lan, 1)?, socket(&lan, 2)?);
        Ok((lan, one, two))
    }

    fn socket(lan: &Lan, number: usize) -> Result<UdpSocket> {
        let node = lan.node(number);
        let bind = || UdpSocket::bind((node.address(), 7));
        let socket = node.namespace().enter(bind)??;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    }

    /// How many of a hundred datagrams arrive.
    fn arrived(from: &UdpSocket, to: &UdpSocket) -> Result<usize> {
        for _ in 0..100 {
            from.send_to(b"x", to.local_addr()?)?;
        }
        Ok((0..100)
            .take_while(|_| to.recv(&mut [0; 8]).is_ok())
            .count())
    }

    #[test]
    fn many_nodes_take_no_room_of_the_table_of_neighbours() -> Result<()> {
        if missing().is_some() {
            return Ok(());
        }
        let lan = Lan::running("none".as_ref(), TOLD_FROM)?;
        let (one, last) = (socket(&lan, 1)?, socket(&lan, TOLD_FROM)?);
        assert_eq!(arrived(&one, &last)?, 100);
        let learnt = ["neigh", "show", "nud", "reachable"];
        assert_eq!(lan.node(1).namespace().run("ip", &learnt, "")?, "");
        let told = ["neigh", "show", "nud", "permanent"];
        let told = lan.node(1).namespace().run("ip", &told, "")?;
        assert_eq!(told.lines().count(), TOLD_FROM - 1, "{told}");
        Ok(())
    }

    #[test]
    fn lan_loses_cuts_heals_and_moves() -> Result<()> {
        if missing().is_some() {
            return Ok(());
        }
        let (mut lan, one, two) = pair()?;
        assert_eq!(arrived(&one, &two)?, 100);
        lan.lose(2, 50)?;
        let half = arrived(&one, &two)?;
        assert!((20..80).contains(&half), "{half}");
        lan.heal()?;
        lan.cut(1, 2)?;
        assert_eq!((arrived(&one, &two)?, arrived(&two, &one)?), (0, 100));
        lan.heal()?;
        lan.cut_node(2)?;
        assert_eq!((arrived(&one, &two)?, arrived(&two, &one)?), (0, 0));
        lan.heal()?;
        assert_eq!((arrived(&one, &two)?, arrived(&two, &one)?), (100, 100));
        lan.move_address(2)?;
        assert_eq!(arrived(&one, &socket(&lan, 2)?)?, 100);
        Ok(())
    }

    #[test]
    fn lan_moves_to_ipv6() -> Result<()> {
        if missing_ipv6().is_some() {
            return Ok(());
        }
        let (mut lan, ..) = pair()?;
        lan.move_to_ipv6()?;
        let (one, two) = (socket(&lan, 1)?, socket(&lan, 2)?);
        assert!(one.local_addr()?.is_ipv6());
        assert_eq!(arrived(&one, &two)?, 100);
        lan.cut(1, 2)?;
        assert_eq!((arrived(&one, &two)?, arrived(&two, &one)?), (0, 100));
        Ok(())
    }
}
