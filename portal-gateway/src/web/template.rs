//! Jobs to start from.

/// A job that a user changes and submits.
pub(super) struct JobTemplate {
    /// Names it in an address.
    pub(super) name: &'static str,
    /// What it is for.
    pub(super) title: &'static str,
    pub(super) text: &'static str,
}

/// All of them. The first one is shown unless another is named.
pub(super) const TEMPLATES: [JobTemplate; 3] = [
    JobTemplate {
        name: "one",
        title: "One task",
        text: include_str!("../../assets/template-one.yaml"),
    },
    JobTemplate {
        name: "many",
        title: "Several tasks that run together (PyTorch)",
        text: include_str!("../../assets/template-many.yaml"),
    },
    JobTemplate {
        name: "notebook",
        title: "A notebook server",
        text: include_str!("../../assets/template-notebook.yaml"),
    },
];

/// The template with this name, or the first one.
pub(super) fn of(name: &str) -> &'static JobTemplate {
    let found = TEMPLATES.iter().find(|one| one.name == name);
    found.unwrap_or(&TEMPLATES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_a_valid_job() {
        for template in TEMPLATES {
            let judged = muster_model::protocol::verdict(template.text);
            let (name, errors) = (template.name, judged.errors);
            assert!(
                judged.valid && judged.warnings.is_empty(),
                "{name}: {errors:?} {:?}",
                judged.warnings
            );
        }
    }
}
