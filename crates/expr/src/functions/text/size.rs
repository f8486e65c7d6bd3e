//! Sizes in bytes as texts, and a bar that shows a number.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{FunctionSpec, Operand};

use crate::functions::rowwise::{NumberArgument, TextArgument, bigints, numbers, texts};
use crate::functions::signatures::{BIGINT, DOUBLE, TEXT, exactly, optional, ordinary};
use crate::kinds::out_of_range;

/// The functions of this file.
pub(in crate::functions) static SIZES: &[FunctionSpec] = &[
    FunctionSpec {
        name: "format_bytes",
        aliases: &["formatreadablesize"],
        signature: |arguments| exactly(arguments, &[BIGINT], TEXT),
        kernel: |arguments, _, rows| formatted(arguments, rows, &BINARY_UNITS, 1024.0),
        doc: "A number of bytes with a unit, which is a power of 1024 bytes.",
        example: ("format_bytes(16384)", "16.0 KiB"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "formatreadabledecimalsize",
        signature: |arguments| exactly(arguments, &[BIGINT], TEXT),
        kernel: |arguments, _, rows| formatted(arguments, rows, &DECIMAL_UNITS, 1000.0),
        doc: "A number of bytes with a unit, which is a power of 1000 bytes.",
        example: ("formatreadabledecimalsize(16384)", "16.3 kB"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "parse_formatted_bytes",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT], BIGINT),
        kernel: |arguments, kind, rows| parsed(arguments, kind, rows, false),
        doc: "The number of bytes of a text such as '16 KiB' (units of 1024) or '1.5 kB' (units of 1000).",
        example: ("parse_formatted_bytes('1.5 kB')", "1500"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "pg_size_bytes",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT], BIGINT),
        kernel: |arguments, kind, rows| parsed(arguments, kind, rows, true),
        doc: "The number of bytes of a text such as '1.5 GB', in which all units are powers of 1024.",
        example: ("pg_size_bytes('1.5 kB')", "1536"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "bar",
        can_fail: true,
        signature: |arguments| optional(arguments, 3, &[DOUBLE, DOUBLE, DOUBLE, DOUBLE], TEXT),
        kernel: bars,
        doc: "A bar that is as long as the place of a number between two others: 80 characters, or the number \
          of the last argument.",
        example: ("bar(5, 0, 20, 8)", "██      "),
        ..ordinary("text")
    },
];

const BINARY_UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const DECIMAL_UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];

fn formatted(arguments: &[Operand], rows: usize, units: &[&str; 6], per_unit: f64) -> Result<ArrayRef> {
    let sizes = bigints(&arguments[0]);
    texts("format_bytes", arguments, rows, |row, made| {
        let bytes = sizes.at(row);
        let (mut size, mut place) = (bytes.unsigned_abs() as f64, 0);
        while size >= per_unit && place < units.len() {
            (size, place) = (size / per_unit, place + 1);
        }
        let sign = if bytes < 0 { "-" } else { "" };
        match place {
            0 if bytes == 1 => made.push("1 byte"),
            0 => made.push(&format!("{bytes} bytes")),
            // The digit is cut rather than rounded, so that 1023.99 KiB do not become 1024.0 KiB.
            _ => made.push(&format!("{sign}{:.1} {}", (size * 10.0).floor() / 10.0, units[place - 1])),
        }
    })
}

fn parsed(arguments: &[Operand], kind: &DataType, rows: usize, is_binary: bool) -> Result<ArrayRef> {
    let sizes = TextArgument::new(&arguments[0]);
    numbers::<Int64Type>(arguments, kind, rows, |row| {
        let text = sizes.at(row).trim();
        let end = text.find(|char: char| char.is_alphabetic()).unwrap_or(text.len());
        // An exponent is a part of the number, for example in 1e3.
        let end = match text[end..].strip_prefix(['e', 'E']) {
            Some(rest) if rest.starts_with(|char: char| char.is_ascii_digit()) => {
                text[end + 1..].find(|char: char| char.is_alphabetic()).map_or(text.len(), |more| end + 1 + more)
            }
            _ => end,
        };
        let (number, unit) = (text[..end].trim(), text[end..].trim());
        let number: Option<f64> = number.parse().ok();
        let Some((number, unit)) = number.zip(bytes_of(unit, is_binary)) else {
            let text: String = text.chars().take(60).collect();
            let error = Error::new(ErrorKind::InvalidText, format!("'{text}' is not a size in bytes"));
            return Err(error.hint("a size is a number and a unit, for example 16 MB or 1.5 GiB"));
        };
        let bytes = (number * unit).round();
        match bytes.abs() < 9.2e18 {
            true => Ok(bytes as i64),
            false => Err(out_of_range(format!("'{text}'"), kind)),
        }
    })
}

fn bytes_of(unit: &str, is_binary: bool) -> Option<f64> {
    let unit = unit.to_ascii_lowercase();
    if matches!(unit.as_str(), "" | "b" | "byte" | "bytes") {
        return Some(1.0);
    }
    let power = "kmgtpe".find(unit.chars().next()?)? as i32 + 1;
    let base: f64 = match &unit[1..] {
        "ib" => 1024.0,
        "" | "b" if is_binary => 1024.0,
        "" | "b" => 1000.0,
        _ => return None,
    };
    Some(base.powi(power))
}

fn bars(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    /// A block that is filled from the left by eighths.
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let [values, lows, highs] = [0, 1, 2].map(|place| NumberArgument::<f64>::new::<Float64Type>(&arguments[place]));
    let widths = arguments.get(3).map(NumberArgument::<f64>::new::<Float64Type>);
    texts("bar", arguments, rows, |row, made| {
        let (value, low, high) = (values.at(row), lows.at(row), highs.at(row));
        let width = widths.map_or(80.0, |widths| widths.at(row));
        if !(1.0..=1000.0).contains(&width) {
            let message = format!("bar: the width must be from 1 to 1000: {width}");
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        if !low.is_finite() || !high.is_finite() || high <= low || value.is_nan() {
            let message = format!("bar: the least value must be below the greatest: {low} and {high}");
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        let filled = ((value - low) / (high - low)).clamp(0.0, 1.0) * width;
        let (whole, part) = (filled.floor() as usize, ((filled - filled.floor()) * 8.0) as usize);
        let width = width.floor() as usize;
        for _ in 0..whole {
            made.push("█")?;
        }
        made.push(EIGHTHS[part])?;
        let used = whole + usize::from(part > 0);
        for _ in used..width.max(used) {
            made.push(" ")?;
        }
        Ok(())
    })
}
