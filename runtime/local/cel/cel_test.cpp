#include "runtime/local/cel/cel.hpp"

#include <gtest/gtest.h>

#include <span>

namespace capstan::local::cel {
namespace {

struct Row {
    const char* expression;
    const char* answer;  // JSON
};

struct ErrorRow {
    const char* expression;
    const char* error;  // its beginning
};

// {text, count, ratio, flag, list, tags (set), ports (map list), labels (map), when, wait, any,
//  a-b, namespace}
Shape thing() {
    const auto make = [](ShapeKind kind, ShapeKind of = ShapeKind::null) {
        auto shape = std::make_unique<Shape>();
        shape->kind = kind;
        if (of != ShapeKind::null) {
            shape->of = std::make_unique<Shape>();
            shape->of->kind = of;
        }
        return shape;
    };
    Shape self;
    self.kind = ShapeKind::object;
    const auto add = [&self](const char* name, std::unique_ptr<Shape> shape) {
        self.fields.push_back({name, std::move(shape)});
    };
    add("text", make(ShapeKind::string));
    add("count", make(ShapeKind::integer));
    add("ratio", make(ShapeKind::real));
    add("flag", make(ShapeKind::boolean));
    add("list", make(ShapeKind::list, ShapeKind::integer));
    add("tags", make(ShapeKind::set, ShapeKind::string));
    auto ports = make(ShapeKind::map_list, ShapeKind::object);
    ports->keys = {"name"};
    ports->of->fields.push_back({"name", make(ShapeKind::string)});
    ports->of->fields.push_back({"port", make(ShapeKind::integer)});
    add("ports", std::move(ports));
    add("labels", make(ShapeKind::map, ShapeKind::string));
    add("when", make(ShapeKind::timestamp));
    add("wait", make(ShapeKind::duration));
    add("any", make(ShapeKind::dyn));
    add("absent", make(ShapeKind::string));
    add("a-b", make(ShapeKind::string));
    add("namespace", make(ShapeKind::string));
    return self;
}

constexpr const char* kThing = R"({
    "text": "héllo", "count": 7, "ratio": 2, "flag": true, "list": [3, 1, 2],
    "tags": ["a", "b"], "ports": [{"name": "x", "port": 1}, {"name": "y", "port": 2}],
    "labels": {"k": "v", "a-b": "c"}, "when": "2026-01-02T03:04:05.5Z", "wait": "1h30m",
    "any": "50%", "a-b": "dash", "namespace": "ns"})";
constexpr const char* kOldThing = R"({
    "count": 5, "tags": ["b", "a"], "list": [1],
    "ports": [{"name": "y", "port": 2}, {"name": "x", "port": 1}]})";

class Cel : public testing::Test {
protected:
    Result<json::Value> run(std::string_view expression, std::uint64_t steps = kRuleStepsMax) {
        auto program = Program::compile(expression, {&shape_, optional_old_}, ShapeKind::dyn);
        if (!program) {
            return fail(Error(program.error()));
        }
        budget_.steps = steps;
        return program.value().evaluate({&self_, has_old_ ? &old_ : nullptr}, budget_);
    }
    void expect(std::span<const Row> rows) {
        for (const Row& row : rows) {
            const auto answer = run(row.expression);
            ASSERT_TRUE(answer.has_value()) << row.expression << ": " << answer.error().message;
            EXPECT_EQ(json::dump(answer.value()), row.answer) << row.expression;
        }
    }
    void expect_errors(std::span<const ErrorRow> rows) {
        for (const ErrorRow& row : rows) {
            const auto answer = run(row.expression);
            ASSERT_FALSE(answer.has_value())
                << row.expression << " gave " << json::dump(answer.value());
            EXPECT_EQ(answer.error().message.substr(0, std::string_view(row.error).size()),
                      row.error)
                << row.expression << ": " << answer.error().message;
        }
    }

    const Shape shape_ = thing();
    const json::Value self_ = json::parse(kThing).value();
    const json::Value old_ = json::parse(kOldThing).value();
    bool has_old_{true};
    bool optional_old_{false};
    Budget budget_;
};

TEST_F(Cel, Literals) {
    constexpr Row kRows[] = {
        {"1", "1"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"0x1F", "31"},
        {"-0x1f", "-31"},
        {"1.5e2", "150.0"},
        {".5", "0.5"},
        {"null", "null"},
        {"'a\\n\\x41\\u00e9\\101'", R"("a\nAéA")"},
        {R"(r'\d')", R"("\\d")"},
        {R"("""a"b""")", R"("a\"b")"},
        {"'''a\n'b'''", R"("a\n'b")"},
        {"[1, 'a', [true],]", R"([1,"a",[true]])"},
        {"{'a': 1, 2: 'b', true: null}", R"({"a":1,"2":"b","true":null})"},
        {"1 + // a comment\n 2", "3"},
    };
    expect(kRows);
}

TEST_F(Cel, PrecedenceAndArithmetic) {
    constexpr Row kRows[] = {
        {"1 + 2 * 3 - 4 / 2", "5"},
        {"(1 + 2) * 3 % 4", "1"},
        {"-7 / 2", "-3"},
        {"-7 % 2", "-1"},
        {"10 - 3 - 2", "5"},
        {"1 < 2 && 2 < 3 || false", "true"},
        {"true || false && false", "true"},
        {"false ? 1 : true ? 2 : 3", "2"},
        {"!true || !!true", "true"},
        {"- -1", "1"},
        {"-self.count", "-7"},
        {"self.ratio * 1.5", "3.0"},
        {"1.0 / 0.0 > 1e300", "true"},
        {"'a' + 'b' == 'ab'", "true"},
        {"[1] + [2]", "[1,2]"},
        {"2 == 2 == true", "true"},
    };
    expect(kRows);
    constexpr ErrorRow kErrors[] = {
        {"9223372036854775807 + 1", "integer overflow"},
        {"-9223372036854775808 - 1", "integer overflow"},
        {"9223372036854775807 * 2", "integer overflow"},
        {"-(-9223372036854775808)", "integer overflow"},
        {"-9223372036854775808 / -1", "integer overflow"},
        {"1 / 0", "division by zero"},
        {"1 % 0", "modulus by zero"},
        {"dyn(1) + dyn('a')", "no such overload"},
    };
    expect_errors(kErrors);
}

TEST_F(Cel, EqualityAndOrder) {
    constexpr Row kRows[] = {
        {"dyn(1) == dyn('1')", "false"},
        {"dyn(1) == dyn(1.0)", "true"},
        {"1 < 1.5 && 2.5 > 2", "true"},
        {"9223372036854775807 < 9.3e18", "true"},
        {"'a' < 'b' && false < true", "true"},
        {"[1, 2] == [1, 2] && [1, 2] != [2, 1]", "true"},
        {"{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", "true"},
        {"{'a': 1} == {'a': 2}", "false"},
        {"self.any == null", "false"},
        {"null == null", "true"},
        {"self.tags == oldSelf.tags", "true"},
        {"self.ports == oldSelf.ports", "true"},
        {"self.list == oldSelf.list", "false"},
        {"self == self", "true"},
        {"self.tags + ['b', 'c']", R"(["a","b","c"])"},
        {"(self.ports + [{'name': 'x', 'port': 9}]).map(p, p.port)", "[9,2]"},
        {"type(self.any) == string && type(1) != string", "true"},
    };
    expect(kRows);
}

TEST_F(Cel, ErrorsAbsorbedByLogic) {
    constexpr Row kRows[] = {
        {"1 / 0 > 1 || true", "true"},
        {"true || 1 / 0 > 1", "true"},
        {"1 / 0 > 1 && false", "false"},
        {"[1, 0].exists(x, 1 / x > 5 || x == 0)", "true"},
        {"[0, 1].all(x, 1 / x > 5)", "false"},
        {"[0, 2].exists(x, 1 / x == 0)", "true"},
        {"true ? 1 : 1 / 0", "1"},
    };
    expect(kRows);
    constexpr ErrorRow kErrors[] = {
        {"1 / 0 > 1 || false", "division by zero"},
        {"[0, 1].all(x, 1 / x > 0)", "division by zero"},
        {"[0, 1].exists_one(x, 1 / x == 1)", "division by zero"},
        {"1 / 0 > 1 ? 1 : 2", "division by zero"},
        {"dyn(1) && true", "no such overload"},
        {"dyn(1) ? 1 : 2", "no such overload"},
    };
    expect_errors(kErrors);
}

TEST_F(Cel, FieldsAndKeys) {
    constexpr Row kRows[] = {
        {"self.text", R"("héllo")"},
        {"has(self.text) && !has(self.absent)", "true"},
        {"has(self.labels.k) && !has(self.labels.z)", "true"},
        {"self.labels['a-b']", R"("c")"},
        {"self.a__dash__b + self.__namespace__", R"("dashns")"},
        {"self.labels.k", R"("v")"},
        {"self.list[0] + self.ports[1].port", "5"},
        {"'k' in self.labels && !('z' in self.labels)", "true"},
        {"2 in self.list && !(9 in [1, 2])", "true"},
        {"{'a': 1}.a", "1"},
        {"self.ratio", "2.0"},
    };
    expect(kRows);
    constexpr ErrorRow kErrors[] = {
        {"self.absent", "no such key: absent"},
        {"self.labels.z", "no such key: z"},
        {"self.labels['z']", "no such key: z"},
        {"self.list[3]", "index out of bounds: 3"},
        {"self.list[-1]", "index out of bounds: -1"},
        {"self.any.x", "no such overload"},
        {"has(self.any.x)", "no such overload"},
    };
    expect_errors(kErrors);
}

TEST_F(Cel, Macros) {
    constexpr Row kRows[] = {
        {"self.list.all(x, x > 0) && !self.list.all(x, x > 1)", "true"},
        {"self.list.exists(x, x == 2)", "true"},
        {"self.list.exists_one(x, x > 2) && !self.list.exists_one(x, x > 1)", "true"},
        {"self.list.filter(x, x > 1)", "[3,2]"},
        {"self.list.map(x, x * 2)", "[6,2,4]"},
        {"self.list.map(x, x > 1, x * 2)", "[6,4]"},
        {"self.labels.map(k, k)", R"(["k","a-b"])"},
        {"self.labels.all(k, self.labels[k] != '')", "true"},
        {"self.list.all(x, self.list.exists(y, y <= x))", "true"},
        {"self.list.map(x, self.list.filter(x, x > 2).size() + x)", "[4,2,3]"},
        {"[].all(x, false) && ![].exists(x, true)", "true"},
        {"self.ports.map(p, p.name)", R"(["x","y"])"},
    };
    expect(kRows);
}

TEST_F(Cel, TextFunctions) {
    constexpr Row kRows[] = {
        {"self.text.size() + size(self.list) + size(self.labels)", "10"},
        {"'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.contains('b')", "true"},
        {"'a1b'.matches('[0-9]') && !matches('ab', '^[0-9]+$')", "true"},
        {"'a1'.matches('[' + '0-9]')", "true"},
        {"'héllo'.indexOf('l')", "2"},
        {"'hello'.indexOf('l', 3)", "3"},
        {"'hello'.lastIndexOf('l')", "3"},
        {"'hello'.lastIndexOf('z')", "-1"},
        {"'héllo'.substring(1, 3)", R"("él")"},
        {"'héllo'.substring(4)", R"("o")"},
        {"'demo-12'.substring('demo-12'.lastIndexOf('-') + 1)", R"("12")"},
        {"'abc'.charAt(1) + 'abc'.charAt(3)", R"("b")"},
        {"'a,b,c'.split(',')", R"(["a","b","c"])"},
        {"'a,b,c'.split(',', 2)", R"(["a","b,c"])"},
        {"'hé'.split('')", R"(["h","é"])"},
        {"['a', 'b'].join('-') + ['a', 'b'].join()", R"("a-bab")"},
        {"'aBÉ'.lowerAscii() + 'aBé'.upperAscii()", R"("abÉABé")"},
        {"' a '.trim()", R"("a")"},
        {"'aaa'.replace('a', 'b', 2)", R"("bba")"},
        {"'ab'.replace('', '-')", R"("-a-b-")"},
        {"'%s is %d, 100%%'.format(['x', 7])", R"("x is 7, 100%")"},
        {"[1, 2, 2].isSorted() && [3, 1].min() == 1 && [3, 1].max() == 3 && [1, 2].sum() == 3",
         "true"},
        {"[1, 2, 1].indexOf(1) + [1, 2, 1].lastIndexOf(1)", "2"},
    };
    expect(kRows);
    constexpr ErrorRow kErrors[] = {
        {"'abc'.substring(4)", "index out of range: 4"},
        {"'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"},
        {"'abc'.charAt(-1)", "index out of range: -1"},
        {"dyn(1).startsWith('a')", "no such overload"},
    };
    expect_errors(kErrors);
}

TEST_F(Cel, Conversions) {
    constexpr Row kRows[] = {
        {"int('12') + int(3.9) + int('-1')", "14"},
        {"double('1.5') + double(2)", "3.5"},
        {"string(12) + string(1.5) + string(true) + string(1000000.0)", R"("121.5true1e+06")"},
        {"bool('true')", "true"},
        {"string(duration('1h30m'))", R"("5400s")"},
        {"string(timestamp('2026-01-02T03:04:05.5+01:00'))", R"("2026-01-02T02:04:05.5Z")"},
        {"int(timestamp('1970-01-02T00:00:00Z'))", "86400"},
    };
    expect(kRows);
    constexpr ErrorRow kErrors[] = {
        {"int('99999999999999999999')", "type conversion error from 'string' to 'int'"},
        {"int('x')", "type conversion error from 'string' to 'int'"},
        {"int(1e19)", "integer overflow"},
        {"duration('1d')", "type conversion error from 'string' to 'google.protobuf.Duration'"},
        {"timestamp('2026-13-01T00:00:00Z')",
         "type conversion error from 'string' to 'google.protobuf.Timestamp'"},
        {"int([])", "no such overload"},
    };
    expect_errors(kErrors);
}

TEST_F(Cel, Times) {
    constexpr Row kRows[] = {
        {"duration('1h30m').getSeconds()", "5400"},
        {"duration('-1.5s').getMilliseconds()", "-1500"},
        {"duration('90m').getHours() + duration('90m').getMinutes()", "91"},
        {"duration('1h') > duration('59m') && duration('0') == duration('0s')", "true"},
        {"duration('1h') + duration('1m') - duration('30s')", R"("3630s")"},
        {"timestamp('2026-01-31T23:00:00Z') + duration('2h')", R"("2026-02-01T01:00:00Z")"},
        {"timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z')", R"("86400s")"},
        {"self.when.getFullYear() + self.when.getMonth() + self.when.getDate()", "2028"},
        {"[self.when.getDayOfWeek(), self.when.getDayOfYear(), self.when.getDayOfMonth()]",
         "[5,1,1]"},
        {"[self.when.getHours(), self.when.getMinutes(), self.when.getMilliseconds()]",
         "[3,4,500]"},
        {"self.when.getHours('+02:00')", "5"},
        {"self.wait > duration('1h') && self.when < timestamp('2027-01-01T00:00:00Z')", "true"},
    };
    expect(kRows);
    constexpr ErrorRow kErrors[] = {
        {"timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"},
        {"self.when.getHours('Mars/Olympus')", "unknown time zone"},
    };
    expect_errors(kErrors);
}

TEST_F(Cel, Urls) {
    constexpr Row kRows[] = {
        {"isURL('https://10.0.0.1:2380') && isURL('/path') && isURL('mailto:x')", "true"},
        {"isURL('10.0.0.1:2380')", "false"},
        {"isURL('s3.example.com')", "false"},
        {"isURL('')", "false"},
        {"isURL('http://a b/')", "false"},
        {"isURL('http://[::1]:80/') && !isURL('http://[::1/')", "true"},
        {"isURL('http://host:x/') || isURL('http://host/%zz') || isURL(':a')", "false"},
        {"url('HTTPS://u@h:1/p%20q?a=1&b=2&a=3').getScheme()", R"("https")"},
        {"url('https://u@h:1/p%20q?a=1').getHost()", R"("h:1")"},
        {"url('https://[::1]:1/p').getHostname() + url('https://h:1/').getPort()", R"("::11")"},
        {"url('https://h/p%20q?a=1').getEscapedPath()", R"("/p%20q")"},
        {"url('https://h/?a=1&b=x+y&a=3').getQuery()", R"({"a":["1","3"],"b":["x y"]})"},
    };
    expect(kRows);
    constexpr ErrorRow kErrors[] = {{"url('x')", "URL parse error during conversion"}};
    expect_errors(kErrors);
}

TEST_F(Cel, OldSelf) {
    constexpr Row kRows[] = {{"self.count >= oldSelf.count", "true"}};
    expect(kRows);
    optional_old_ = true;
    constexpr Row kOptional[] = {
        {"oldSelf.hasValue() && oldSelf.value().count == 5", "true"},
        {"oldSelf.optMap(o, o.count).orValue(0)", "5"},
        {"oldSelf.count.orValue(0)", "5"},
        {"self.?absent.orValue('x')", R"("x")"},
        {"self.list[?9].hasValue()", "false"},
        {"optional.none().or(optional.of(1)).value()", "1"},
    };
    expect(kOptional);
    has_old_ = false;
    constexpr Row kNone[] = {{"oldSelf.hasValue()", "false"},
                             {"oldSelf.optMap(o, o.count).orValue(0)", "0"}};
    expect(kNone);
    EXPECT_TRUE(Program::compile("oldSelf == self", {}).value().uses_old());
    EXPECT_FALSE(Program::compile("self == self", {}).value().uses_old());
}

TEST_F(Cel, WhatIsRefusedWhenCompiled) {
    const std::string deep = std::string(200, '(') + "1" + std::string(200, ')');
    const ErrorRow rows[] = {
        {"", "offset 0: unexpected end of the expression"},
        {"1 +", "offset 3: unexpected end of the expression"},
        {"1 1", "offset 2: unexpected '1'"},
        {"(1", "offset 2: unexpected end"},
        {"a ? b", "offset 5: unexpected end"},
        {"'abc", "offset 0: the string does not end"},
        {"'\\q'", "offset 1: malformed escape"},
        {"'\\ud800'", "offset 1: malformed escape"},
        {"1u", "offset 1: unsigned numbers are not supported"},
        {"b'a'", "offset 0: bytes are not supported"},
        {"1a", "offset 1: a number ends with a letter"},
        {"9223372036854775808", "offset 0: invalid int literal"},
        {"self # 1", "offset 5: unexpected character"},
        {"foo", "offset 0: undeclared reference to 'foo'"},
        {"self.list.all(x, true) && x", "offset 26: undeclared reference to 'x'"},
        {"self.list.all(x.y, true)", "offset 16: argument must be a simple name"},
        {"has(self)", "offset 0: invalid argument to has() macro"},
        {"for", "offset 0: reserved identifier: for"},
        {"self.nothing", "offset 5: undefined field 'nothing'"},
        {"self.ports.all(p, p.x)", "offset 20: undefined field 'x'"},
        {"self.namespace", "offset 5: undefined field 'namespace'"},
        {"self.text.foo", "offset 10: type 'string' does not support field selection"},
        {"self.text.foo()", "offset 10: undeclared reference to 'foo'"},
        {"quantity('1')", "offset 0: undeclared reference to 'quantity'"},
        {"self.text.startsWith(1, 2)", "offset 10: found no matching overload for 'startsWith'"},
        {"self.count.startsWith('a')", "offset 11: found no matching overload for 'startsWith'"},
        {"self.text + 1", "offset 10: found no matching overload for '_+_' applied to"},
        {"self.text == 1", "offset 10: found no matching overload for '_==_' applied to"},
        {"self.count == self.ratio", "offset 11: found no matching overload for '_==_'"},
        {"self.count.all(x, true)", "offset 11: expression of type 'int' cannot be range"},
        {"self.count && true", "offset 5: expected type 'bool' but found 'int'"},
        {"self.text.matches('(')", "offset 18: invalid matches argument"},
        {deep.c_str(), "the expression has more than"},
    };
    expect_errors(rows);
    EXPECT_EQ(Program::compile("self.count", {&shape_}).error().message,
              "offset 0: must evaluate to a bool");
    EXPECT_EQ(Program::compile(std::string(kRuleBytesMax + 1, ' '), {}).error().code,
              Code::too_large);
}

TEST_F(Cel, EveryStepIsPaidFor) {
    EXPECT_TRUE(run("self.list.all(x, x > 0)", 40).has_value());
    const auto refused = run("self.list.all(x, x > 0)", 10);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::too_large);
    EXPECT_EQ(refused.error().message, kCostExceeded);
    EXPECT_EQ(budget_.steps, 0u);
    // Not even || absorbs it.
    EXPECT_FALSE(run("self.list.all(x, x > 0) || true", 10).has_value());
    std::string loops = "true";
    for (int i = 0; i < 14; ++i) {
        loops = "[1, 2, 3, 4].all(v" + std::to_string(i) + ", " + loops + ")";
    }
    const auto endless = run(loops);
    ASSERT_FALSE(endless.has_value());
    EXPECT_EQ(endless.error().message, kCostExceeded);
    EXPECT_FALSE(
        run("'" + std::string(4'000, 'a') + "'.contains('" + std::string(2'000, 'a') + "b')",
            50'000)
            .has_value());
    EXPECT_FALSE(run("'a'.matches('(a{1000}){10' + '}')", 1'000).has_value());
    EXPECT_FALSE(run("'" + std::string(8'000, 'a') + "'.matches('(a*)*b')", 500).has_value());
}

}  // namespace
}  // namespace capstan::local::cel
