//! `${VARIABLES}`, fio's reserved words (`$pagesize`, `$mb_memory`, `$ncpus`) and arithmetic in values.

/// Values from outside the file that expansion uses.
pub struct Surroundings<'a> {
    /// Environment variables.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Value of `$pagesize` in bytes.
    pub page_bytes: u64,
    /// Value of `$mb_memory` in MiB.
    pub memory_mib: u64,
    /// Value of `$ncpus`.
    pub cpus: u64,
}

impl Surroundings<'_> {
    /// The values of this machine and of this process's environment.
    pub fn of_this_machine() -> Self {
        Self {
            variable: &|name| std::env::var(name).ok(),
            page_bytes: 4096,
            memory_mib: memory_mib().unwrap_or(0),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
        }
    }
}

/// Total memory; `None` if /proc does not say.
fn memory_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib >> 10)
}

/// Most bytes of an expanded value.
const MAX_VALUE_BYTES: usize = 64 << 10;

/// The value with variables and reserved words replaced. It is calculated if it had such words or is in parentheses. Variables that are not
/// set are empty, as in fio.
pub fn expand(value: &str, surroundings: &Surroundings<'_>) -> Result<String, String> {
    let value = variables(value, surroundings)?;
    let words = [
        ("$pagesize", surroundings.page_bytes),
        ("$mb_memory", surroundings.memory_mib),
        ("$ncpus", surroundings.cpus),
    ];
    let mut replaced = value.clone();
    for (word, number) in words {
        if replaced.contains(word) {
            replaced = replaced.replace(word, &number.to_string());
        }
    }
    let enclosed = value.starts_with('(') && value.ends_with(')');
    if replaced == value && !enclosed {
        return Ok(value);
    }
    let mut expression = Expression { rest: replaced.as_bytes(), depth: 0 };
    let number = expression.sum().filter(|_| expression.rest.is_empty());
    number.map(|number| number.to_string()).ok_or_else(|| {
        format!("{value:?} cannot be calculated: write whole numbers, + - * / and parentheses, without units")
    })
}

fn variables(value: &str, surroundings: &Surroundings<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some((before, name)) = rest.split_once("${") {
        let (name, after) = name.split_once('}').ok_or_else(|| format!("{value:?}: a ${{ without its }}"))?;
        // An empty name, or one with = or NUL, cannot be a variable.
        let known = !name.is_empty() && !name.contains(['=', '\0']);
        out.push_str(before);
        out.push_str(&known.then(|| (surroundings.variable)(name)).flatten().unwrap_or_default());
        rest = after;
        if out.len() > MAX_VALUE_BYTES {
            return Err(format!("longer than {MAX_VALUE_BYTES} bytes with its variables"));
        }
    }
    out.push_str(rest);
    Ok(out.trim().to_owned())
}

/// Integer arithmetic by recursive descent. Each method advances `rest` behind what it has read.
struct Expression<'a> {
    rest: &'a [u8],
    depth: u32,
}

impl Expression<'_> {
    /// Deepest nesting of parentheses.
    const MAX_DEPTH: u32 = 32;

    fn next_is(&mut self, sign: u8) -> bool {
        self.rest = self.rest.trim_ascii_start();
        match self.rest.split_first() {
            Some((&first, rest)) if first == sign => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn sum(&mut self) -> Option<i128> {
        let mut total = self.product()?;
        loop {
            if self.next_is(b'+') {
                total = total.checked_add(self.product()?)?;
            } else if self.next_is(b'-') {
                total = total.checked_sub(self.product()?)?;
            } else {
                return Some(total);
            }
        }
    }

    fn product(&mut self) -> Option<i128> {
        let mut total = self.factor()?;
        loop {
            if self.next_is(b'*') {
                total = total.checked_mul(self.factor()?)?;
            } else if self.next_is(b'/') {
                total = total.checked_div(self.factor()?)?;
            } else {
                return Some(total);
            }
        }
    }

    fn factor(&mut self) -> Option<i128> {
        if self.next_is(b'(') {
            self.depth += 1;
            let inner = if self.depth <= Self::MAX_DEPTH { self.sum()? } else { return None };
            self.depth -= 1;
            return self.next_is(b')').then_some(inner);
        }
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        std::str::from_utf8(number).ok()?.parse::<u64>().ok().map(i128::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expanded(value: &str) -> Result<String, String> {
        let variable = |name: &str| (name == "SIZE").then(|| "64m".to_owned());
        expand(value, &Surroundings { variable: &variable, page_bytes: 4096, memory_mib: 1000, cpus: 2 })
    }

    #[test]
    fn variables_words_and_sums() {
        for (value, result) in [
            ("plain", "plain"),
            ("${SIZE}", "64m"),
            ("a${SIZE}b${NONE}c", "a64mbc"),
            ("${}", ""),
            ("8*$mb_memory", "8000"),
            ("7*1024*1024*$mb_memory/8", "917504000"),
            ("64*$pagesize", "262144"),
            ("$ncpus", "2"),
            ("(1 + 2 * (3 - 1))", "5"),
        ] {
            assert_eq!(expanded(value).as_deref(), Ok(result), "{value}");
        }
    }

    #[test]
    fn what_cannot_be_calculated_is_said() {
        for value in ["${SIZE", "(1/0)", "(1+)", "(4k*2)", "$ncpus$ncpus x", "()", "(1)(2)"] {
            assert!(expanded(value).is_err(), "{value}");
        }
        assert!(expanded(&format!("{}1{}", "(".repeat(1000), ")".repeat(1000))).is_err());
        assert!(expanded(&format!("({})", "9".repeat(100))).is_err());
    }

    proptest! {
        #[test]
        fn no_value_panics(value in "[(]?[-+*/()0-9${}a-z ]{0,30}[)]?") {
            let _ = expanded(&value);
        }
    }
}
