//! Queries drives for what no file contains, for the rules.

use forebay_device::counters::{Ata, Inquiry, PowerStates, Said, inquire};
use forebay_platform::answers::{Answer, Answers, Ask, Health, PowerState, Stop, Transition};
use std::path::Path;

/// Queries the drives of this machine.
pub struct Asker;

impl Ask for Asker {
    fn ask(&self, name: &str) -> Answers {
        // In sysfs a '/' of a device name becomes a '!'.
        answers(inquire(&Path::new("/dev").join(name.replace('!', "/"))))
    }
}

fn answer<T, U>(said: Said<T>, of: impl FnOnce(T) -> U) -> Option<Answer<U>> {
    Some(said.map_or_else(Answer::Unknown, |value| Answer::Said(of(value))))
}

fn answers(inquiry: Inquiry) -> Answers {
    match inquiry {
        Inquiry::None(_) => Answers::default(),
        Inquiry::Nvme { health, power, state, sleep } => {
            let warning_celsius = power.as_ref().ok().and_then(|power| power.warning_celsius);
            Answers {
                health: answer(health, |health| Health {
                    critical_warning_bits: health.critical_warning_bits,
                    percentage_used_percent: health.percentage_used_percent,
                    // Where both are 0 the drive does not fill in these fields, as with QEMU.
                    spare_percent: Some((health.available_spare_percent, health.spare_threshold_percent))
                        .filter(|&spare| spare != (0, 0)),
                    media_errors: Some(health.media_errors),
                    temperature_celsius: health.temperature_celsius(),
                    warning_celsius,
                }),
                power_states: answer(power, states),
                power_state: answer(state, |state| state),
                sleep: answer(sleep, |all| {
                    let one = |one: forebay_device::counters::Transition| Transition {
                        from: one.from,
                        to: one.to,
                        idle_ms: one.idle_ms,
                    };
                    all.into_iter().map(one).collect()
                }),
                stop: None,
            }
        }
        Inquiry::Ata(said) => {
            let wear = said.as_ref().ok().and_then(|ata: &Ata| ata.percentage_used_percent);
            Answers {
                health: wear.map(|percentage_used_percent| {
                    Answer::Said(Health { percentage_used_percent, ..Health::default() })
                }),
                stop: answer(said, |ata| Stop {
                    power_management: ata.power_management,
                    has_power_conditions: ata.has_power_conditions,
                }),
                ..Answers::default()
            }
        }
    }
}

fn states(power: PowerStates) -> Vec<PowerState> {
    let one = |state: forebay_device::counters::PowerState| PowerState {
        max_power_mw: state.max_power_mw,
        is_operational: state.is_operational,
        entry_us: state.entry_us,
        exit_us: state.exit_us,
    };
    power.states.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_said_is_unknown_and_what_is_not_asked_is_not_there() {
        let why = || "no".to_owned();
        let nvme =
            answers(Inquiry::Nvme { health: Err(why()), power: Err(why()), state: Ok(3), sleep: Ok(Vec::new()) });
        assert_eq!(nvme.health, Some(Answer::Unknown(why())));
        assert_eq!((nvme.power_state, nvme.stop), (Some(Answer::Said(3)), None));
        let said = |wear| Ata { power_management: Some(1), has_power_conditions: false, percentage_used_percent: wear };
        let ata = answers(Inquiry::Ata(Ok(said(None))));
        assert_eq!((ata.health, ata.power_states), (None, None));
        let ata = answers(Inquiry::Ata(Ok(said(Some(7)))));
        assert!(matches!(ata.health, Some(Answer::Said(Health { percentage_used_percent: 7, .. }))));
        assert_eq!(answers(Inquiry::None(why())), Answers::default());
    }
}
