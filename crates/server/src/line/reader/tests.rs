use proptest::prelude::*;

use super::*;

fn read(body: &[u8]) -> (Vec<LinePoint<'_>>, Vec<(u64, LineError)>) {
    let (mut points, mut errors) = (Vec::new(), Vec::new());
    let mut reader = LineReader::new(body);
    let mut point = LinePoint::default();
    while let Some(line) = reader.next_into(&mut point) {
        match line.outcome {
            Ok(()) => points.push(point.clone()),
            Err(error) => errors.push((line.number, error)),
        }
    }
    (points, errors)
}

/// The only point of a line.
fn point(line: &str) -> LinePoint<'_> {
    let (mut points, errors) = read(line.as_bytes());
    assert_eq!((points.len(), &errors[..]), (1, &[][..]), "{line}");
    points.remove(0)
}

/// The column and the reason for which a line is refused.
fn refused(line: &str) -> (usize, String) {
    let (points, mut errors) = read(line.as_bytes());
    assert_eq!((points.len(), errors.len()), (0, 1), "{line}");
    let (_, error) = errors.remove(0);
    (error.column, error.reason)
}

#[test]
fn values_have_their_types() {
    let point = point("m a=1,b=-2i,c=3u,d=\"x\",e=t,f=False,g=1.5e3,h=1465839830100400t 17");
    let values: Vec<LineValue<'_>> = point.fields.into_iter().map(|(_, value)| value).collect();
    let expected = [
        LineValue::Float(1.0),
        LineValue::Integer(-2),
        LineValue::Unsigned(3),
        LineValue::Text("x".into()),
        LineValue::Boolean(true),
        LineValue::Boolean(false),
        LineValue::Float(1500.0),
        LineValue::Micros(1_465_839_830_100_400),
    ];
    assert_eq!((values.as_slice(), point.time), (&expected[..], Some(17)));
}

#[test]
fn escapes_are_read() {
    let point = point(r#"a\ b\,c=d,t\=1=v\ \,\=\\x,p=C:\dir f\ g="say \"hi\" \\ \n",h=1"#);
    assert_eq!(point.measurement.text(), "a b,c=d");
    assert_eq!(point.tags, [("t=1".into(), r" v ,=\x".trim_start().into()), ("p".into(), r"C:\dir".into())]);
    assert_eq!(point.fields[0], ("f g".into(), LineValue::Text(r#"say "hi" \ \n"#.into())));
}

#[test]
fn texts_without_escapes_are_borrowed() {
    let point = point("m,t=v f=\"x\"");
    assert!(matches!(point.measurement.text(), Cow::Borrowed(_)));
    assert!(matches!(point.fields[0].1, LineValue::Text(text) if matches!(text.text(), Cow::Borrowed(_))));
}

/// QuestDB's clients write a backslash before a line break of a string.
#[test]
fn a_backslash_before_a_line_break_of_a_string_goes() {
    let (points, errors) = read(b"m s=\"a\\\nb\\\rc\\d\"\nm =\n");
    assert_eq!(points[0].fields[0].1, LineValue::Text("a\nb\rc\\d".into()));
    assert_eq!(errors[0].0, 3);
}

#[test]
fn comments_empty_lines_and_strings_with_line_breaks_count_as_lines() {
    let body = b"# comment\n\n  \r\nm a=1\r\nm b=\"two\nlines\"\nbad\nm c=\"\r\n\"";
    let (points, errors) = read(body);
    assert_eq!(points.len(), 3);
    assert_eq!(points[1].fields[0].1, LineValue::Text("two\nlines".into()));
    assert_eq!(errors.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [7]);
}

#[test]
fn errors_tell_the_column() {
    for (line, column, reason) in [
        (",a=1", 1, "measurement"),
        ("m", 2, "no fields"),
        ("m ", 3, "no fields"),
        ("m,a b=1", 4, "equals sign"),
        ("m,=1 b=1", 3, "name of a tag"),
        ("m,a= b=1", 5, "no value"),
        ("m,a=b=c b=1", 6, "backslash"),
        ("m a", 4, "equals sign"),
        ("m =1", 3, "name of a field"),
        ("m a=", 5, "no value"),
        ("m a=x", 5, "\"x\" is no number"),
        ("m ä=nan", 5, "no number"),
        ("m a=1e999", 5, "out of range"),
        ("m a=9223372036854775808i", 5, "out of range"),
        ("m a=-1u", 5, "out of range"),
        ("m a=1,", 7, "name of a field"),
        ("m a=\"x", 5, "no end"),
        ("m a=\"x\"y", 8, "must follow"),
        ("m a=1 x", 7, "timestamp"),
        ("m a=1 +1", 7, "timestamp"),
        ("m a=1 1 1", 9, "goes on"),
        ("m a=1 99999999999999999999", 7, "timestamp"),
    ] {
        let (found, why) = refused(line);
        assert!(found == column && why.contains(reason), "{line}: {found} {why}");
    }
}

#[test]
fn lines_around_a_bad_one_are_read() {
    let (points, errors) = read(b"m a=1\nm a=\"open\nm a=2\nm a=\xff\nm a=3\n\xff\xff");
    assert_eq!(points.len(), 3);
    assert_eq!(errors.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 4, 6]);
    assert_eq!(errors[1].1.column, 5);
}

#[test]
fn a_point_tells_whether_it_has_the_names_of_the_last_one() {
    let body =
        b"m,t=1 a=1i,b=2 1\nm,t=2 a=-3i,b=4\nm,t=2 a=3i\nm,t=2 a=3i\nm,t=2,a=3 b=1\nm2,t=2,a=3 b=1\nm2,t=2,a=3 b=x\n\
        m2,t=2,a=3 b=1\nm2,t\\ =2,a=3 b=1\nm2,t\\ =2,a=3 b=1\nm2,t=2,a=3 b=1\nm2,t=2,ab=3 b=1\n";
    let (points, errors) = read(body);
    assert_eq!(errors.len(), 1);
    let repeats: Vec<bool> = points.iter().map(|point| point.repeats_names).collect();
    assert_eq!(repeats, [false, true, false, true, false, false, false, false, false, false, false]);
    assert_eq!(points[1].fields[0].1, LineValue::Integer(-3));
    assert_eq!(points[8].tags[0].0.text(), "t ");
    assert_eq!(points[10].tags[1].0.text(), "ab");
}

/// Writes a point as a line.
fn written(point: &LinePoint<'_>) -> String {
    let name = |text: &str| {
        let mut out = String::new();
        for char in text.chars() {
            if ",= \\".contains(char) {
                out.push('\\');
            }
            out.push(char);
        }
        out
    };
    let mut line = name(&point.measurement.text());
    for (tag, value) in &point.tags {
        line.push_str(&format!(",{}={}", name(&tag.text()), name(&value.text())));
    }
    for (index, (field, value)) in point.fields.iter().enumerate() {
        line.push_str(&format!("{}{}=", if index == 0 { " " } else { "," }, name(&field.text())));
        line.push_str(&match value {
            LineValue::Float(value) => format!("{value:?}"),
            LineValue::Integer(value) => format!("{value}i"),
            LineValue::Unsigned(value) => format!("{value}u"),
            LineValue::Micros(value) => format!("{value}t"),
            LineValue::Text(text) => format!("\"{}\"", text.text().replace('\\', "\\\\").replace('"', "\\\"")),
            LineValue::Boolean(value) => value.to_string(),
        });
    }
    if let Some(time) = point.time {
        line.push_str(&format!(" {time}"));
    }
    line
}

/// A text of a point that no body has.
fn leaked(text: String) -> LineText<'static> {
    LineText::from(&*text.leak())
}

fn value() -> impl Strategy<Value = LineValue<'static>> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(LineValue::Float),
        any::<i64>().prop_map(LineValue::Integer),
        any::<u64>().prop_map(LineValue::Unsigned),
        any::<i64>().prop_map(LineValue::Micros),
        any::<String>().prop_map(|text| LineValue::Text(leaked(text))),
        any::<bool>().prop_map(LineValue::Boolean),
    ]
}

fn any_point() -> impl Strategy<Value = LinePoint<'static>> {
    // A name cannot have control characters, and a measurement cannot begin like a comment.
    let name = || "[a-z,= \\\\é\"]{1,6}".prop_filter("not a leading space", |name| !name.starts_with(' '));
    let tags = prop::collection::vec((name(), name()), 0..3);
    let fields = prop::collection::vec((name(), value()), 1..4);
    (name(), tags, fields, any::<Option<i64>>()).prop_map(|(measurement, tags, fields, time)| LinePoint {
        measurement: leaked(measurement),
        tags: tags.into_iter().map(|(name, value)| (leaked(name), leaked(value))).collect(),
        fields: fields.into_iter().map(|(name, value)| (leaked(name), value)).collect(),
        time,
        repeats_names: false,
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(body: Vec<u8>) {
        read(&body);
    }

    #[test]
    fn any_text_of_characters_with_a_meaning_is_read_without_a_panic(body in "[m,=\\\\ \"\n\r#it1é.-]{0,60}") {
        read(body.as_bytes());
    }

    #[test]
    fn written_points_read_back(points in prop::collection::vec(any_point(), 1..5)) {
        let body: Vec<String> = points.iter().map(written).collect();
        let body = body.join("\n");
        let (read, errors) = read(body.as_bytes());
        prop_assert_eq!(errors, []);
        prop_assert_eq!(read.len(), points.len());
        for (read, point) in read.iter().zip(&points) {
            prop_assert_eq!(read.measurement, point.measurement);
            prop_assert_eq!((&read.tags, &read.fields), (&point.tags, &point.fields));
            prop_assert_eq!(read.time, point.time);
        }
    }
}
