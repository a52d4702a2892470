use super::ClusterSpec;

const NODE: &str = "
physicalCluster:
  cellTypes:
    PAIR: {childCellType: G, childCellNumber: 2}
    NODE: {childCellType: PAIR, childCellNumber: 2, isNodeLevel: true}
    POOL: {childCellType: NODE, childCellNumber: 2}
  skuTypes: {G: {gpu: 1, cpu: 4, memory: 8Gi}}
";

fn read(cells: &str) -> Result<ClusterSpec, String> {
    let text = format!("{NODE}  physicalCells:\n{cells}");
    ClusterSpec::from_hived_yaml(&text).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}

#[test]
fn what_is_left_out_is_numbered_from_the_top_and_anew_inside_a_machine() {
    let spec = read("  - {cellType: NODE, cellAddress: a}\n  - {cellType: POOL}\n").unwrap();
    let names: Vec<&str> = spec.cells[1].children.iter().map(|c| &*c.address).collect();
    assert_eq!(names, ["2", "3"]);
    assert!(spec.cells[0].children.is_empty());
    let spelled = "  - cellType: NODE\n    cellChildren: [{cellAddress: x}, {}]\n";
    let node = &read(spelled).unwrap().cells[0];
    let leaves: Vec<&str> = node.children[1]
        .children
        .iter()
        .map(|c| &*c.address)
        .collect();
    assert_eq!((&*node.children[0].address, leaves), ("x", vec!["2", "3"]));
}

#[test]
fn numbers_as_addresses_keep_their_text() {
    let spec = read("  - {cellType: NODE, cellAddress: 10.10}\n").unwrap();
    assert_eq!(spec.cells[0].address, "10.10");
    assert_eq!(spec.sku_types["G"].memory_mb, 8192);
}

#[test]
fn every_problem_names_its_field() {
    let check = |cells: &str, expect: &str| {
        let error = read(cells).unwrap_err();
        assert!(error.contains(expect), "{error}");
    };
    check(
        "  - {cellType: NOPE}\n",
        "physicalCells[0].cellType: cell type NOPE is not among",
    );
    check(
        "  - {cellType: PAIR}\n",
        "physicalCells[0].cellType: 0 of the types PAIR, G have isNodeLevel",
    );
    check(
        "  - {cellType: POOL, cellChildren: [{}]}\n",
        "physicalCells[0].cellChildren: has 1 cells, but a POOL has 2",
    );
    check(
        "  - {cellType: POOL, cellChildren: [{}, {cellType: PAIR}]}\n",
        "physicalCells[0].cellChildren[1].cellType: is PAIR, but its parent has children of type NODE",
    );
    let circle = "physicalCluster: {cellTypes: {A: {childCellType: A, childCellNumber: 1}}, physicalCells: [{cellType: A}]}";
    let problems = ClusterSpec::from_hived_yaml(circle).unwrap_err();
    assert!(
        problems[0].message.contains("contains itself"),
        "{problems:?}"
    );
    let vc = "virtualClusters: {v: {virtualCells: [{cellType: A, cellNumber: -1}]}}";
    let problems = ClusterSpec::from_hived_yaml(vc).unwrap_err();
    assert_eq!(
        problems[0].path,
        "virtualClusters.v.virtualCells[0].cellNumber"
    );
    assert!(ClusterSpec::from_hived_yaml("[").is_err());
}

#[test]
fn a_tree_of_a_billion_devices_is_refused() {
    let text = "
physicalCluster:
  cellTypes:
    NODE: {childCellType: G, childCellNumber: 1000000000, isNodeLevel: true}
  physicalCells: [{cellType: NODE}]
";
    let problems = ClusterSpec::from_hived_yaml(text).unwrap_err();
    assert!(
        problems[0].message.contains("devices in all"),
        "{problems:?}"
    );
}

proptest::proptest! {
    /// Whatever is written, it is read or refused.
    #[test]
    fn no_text_is_too_strange(
        at in 0usize..400,
        cut in 0usize..40,
        text in "[a-zA-Z0-9:{}\\[\\], \\n*&-]{0,20}",
    ) {
        let good = format!(
            "{NODE}  physicalCells: [{{cellType: POOL, cellChildren: [{{cellAddress: a}}, {{}}]}}]\n\
             virtualClusters: {{v: {{virtualCells: [{{cellType: POOL.NODE, cellNumber: 2}}]}}}}\n"
        );
        let at = at.min(good.len());
        let end = (at + cut).min(good.len());
        let strange = format!("{}{text}{}", &good[..at], &good[end..]);
        let _either = ClusterSpec::from_hived_yaml(&strange);
    }
}

#[test]
fn levels_are_stated_or_told_by_place_and_name() {
    let text = "
physicalCluster:
  cellTypes:
    V100-SWITCH: {childCellType: V100, childCellNumber: 2}
    V100-SOCKET: {childCellType: V100-SWITCH, childCellNumber: 2}
    V100-NODE: {childCellType: V100-SOCKET, childCellNumber: 2, isNodeLevel: true}
    3-V100-NODE: {childCellType: V100-NODE, childCellNumber: 3}
    ROW: {childCellType: 3-V100-NODE, childCellNumber: 2}
    K80-NV-SWITCH: {childCellType: K80, childCellNumber: 2, level: nvlink}
    K80-NODE: {childCellType: K80-NV-SWITCH, childCellNumber: 2, isNodeLevel: true}
    K80-POOL: {childCellType: K80-NODE, childCellNumber: 3}
    K80-Rack: {childCellType: K80-POOL, childCellNumber: 3}
";
    let spec = ClusterSpec::from_hived_yaml(text).unwrap();
    let levels = spec.cell_types.iter().filter_map(|(name, kind)| {
        let level = kind.level?.to_string();
        Some((&**name, level))
    });
    let levels: Vec<(&str, String)> = levels.collect();
    let expected = [
        ("3-V100-NODE", "rack"),
        ("K80-NODE", "node"),
        ("K80-NV-SWITCH", "nvlink"),
        ("K80-Rack", "rack"),
        ("V100-NODE", "node"),
        ("V100-SOCKET", "numa"),
        ("V100-SWITCH", "pcie"),
    ];
    assert_eq!(
        levels,
        expected.map(|(name, level)| (name, level.to_owned()))
    );
}

#[test]
fn a_level_out_of_place_is_told() {
    for (level, expected) in [
        ("shelf", "\"shelf\" is no level; write pcie, nvlink"),
        ("rack", "does not suit its place"),
    ] {
        let text = NODE.replace(
            "childCellType: G,",
            &format!("level: {level}, childCellType: G,"),
        );
        let problems = ClusterSpec::from_hived_yaml(&text).unwrap_err();
        assert_eq!(problems[0].path, "physicalCluster.cellTypes.PAIR.level");
        assert!(problems[0].message.contains(expected), "{problems:?}");
    }
}
