//! Whom an image's USER means, by the image's own /etc/passwd and /etc/group.

/// A user as the kernel knows one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerUser {
    pub uid: u32,
    pub gid: u32,
    /// Groups besides `gid`.
    pub groups: Vec<u32>,
}

/// Whether USER is root however it is looked up, so that no file need be read.
pub(crate) fn is_root(text: &str) -> bool {
    matches!(
        text,
        "" | "0" | "root" | "0:0" | "root:root" | "root:0" | "0:root"
    )
}

/// The kernel knows larger ids, but takes the largest for "leave it as it is": root, that is.
const ID_MAX: u32 = i32::MAX.cast_unsigned();

/// Resolves `user`, `uid`, `user:group` or any mix of names and numbers, as Docker does: a
/// number need not be listed; a user without `:group` gets its primary and further groups.
pub(crate) fn resolve(text: &str, passwd: &str, group: &str) -> Result<ContainerUser, String> {
    let (user, named_group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let entry = entries(passwd).find(|e| e[0] == user || (e.len() > 3 && e[2] == user));
    let number = |text: &str| text.parse::<u32>().ok();
    let uid = match &entry {
        Some(entry) => entry.get(2).and_then(|uid| number(uid)),
        None => number(user),
    };
    let uid = uid.ok_or_else(|| format!("no user {user:?} in its /etc/passwd"))?;
    within(uid)?;
    if let Some(name) = named_group {
        let gid =
            group_id(name, group).ok_or_else(|| format!("no group {name:?} in its /etc/group"))?;
        within(gid)?;
        return Ok(ContainerUser {
            uid,
            gid,
            groups: Vec::new(),
        });
    }
    let gid = entry.as_ref().and_then(|e| number(e.get(3)?)).unwrap_or(0);
    within(gid)?;
    let name = entry.as_ref().map_or(user, |e| e[0]);
    let groups: Vec<u32> = entries(group)
        .filter(|e| {
            e.get(3)
                .is_some_and(|members| members.split(',').any(|m| m == name))
        })
        .filter_map(|e| number(e.get(2)?))
        .filter(|id| *id != gid)
        .collect();
    groups.iter().try_for_each(|id| within(*id))?;
    Ok(ContainerUser { uid, gid, groups })
}

/// Whether an id is one that a process can have.
fn within(id: u32) -> Result<(), String> {
    if id <= ID_MAX {
        Ok(())
    } else {
        Err(format!(
            "its USER means the id {id}, and ids go up to {ID_MAX}; change it in the image"
        ))
    }
}

fn group_id(name: &str, group: &str) -> Option<u32> {
    entries(group)
        .find(|e| e[0] == name)
        .and_then(|e| e.get(2)?.parse().ok())
        .or_else(|| name.parse().ok())
}

/// The lines of a passwd or group file, split at colons; never empty.
fn entries(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.trim_end().split(':').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n\
                          broken\n# note\n";
    const GROUP: &str = "root:x:0:\napp:x:1001:\nvideo:x:44:app,other\nlocal:x:50:other\n";

    #[test]
    fn users_resolve_as_docker_does() {
        let user = |uid, gid, groups: &[u32]| {
            Ok(ContainerUser {
                uid,
                gid,
                groups: groups.to_vec(),
            })
        };
        for (text, expect) in [
            ("root", user(0, 0, &[])),
            ("app", user(1000, 1001, &[44])),
            ("1000", user(1000, 1001, &[44])),
            ("app:video", user(1000, 44, &[])),
            ("app:7", user(1000, 7, &[])),
            ("4711", user(4711, 0, &[])),
            ("4711:4712", user(4711, 4712, &[])),
            (
                "nobody",
                Err("no user \"nobody\" in its /etc/passwd".to_owned()),
            ),
            (
                "broken",
                Err("no user \"broken\" in its /etc/passwd".to_owned()),
            ),
            (
                "app:wheel",
                Err("no group \"wheel\" in its /etc/group".to_owned()),
            ),
        ] {
            assert_eq!(resolve(text, PASSWD, GROUP), expect, "{text}");
        }
    }

    /// The largest id leaves a process the user it has, which is root.
    #[test]
    fn ids_that_no_process_can_have_are_refused() {
        let passwd = "high:x:2147483648:1::/:/bin/sh\nlow:x:1:4294967295::/:/bin/sh\n";
        let group = "video:x:3000000000:app\n";
        for text in [
            "4294967295",
            "2147483648",
            "4294967295:4294967295",
            "1:4294967295",
            "0:2147483648",
            "high",
            "low",
            "1:video",
            "app",
        ] {
            let passwd = format!("app:x:5:5::/:/bin/sh\n{passwd}");
            let refusal = resolve(text, &passwd, group).unwrap_err();
            assert!(
                refusal.contains("ids go up to 2147483647"),
                "{text}: {refusal}"
            );
        }
        for text in ["4294967296", "-1"] {
            assert!(resolve(text, passwd, group).is_err(), "{text}");
        }
        assert_eq!(resolve("2147483647", "", "").unwrap().uid, 2_147_483_647);
    }
}
