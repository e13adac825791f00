#include "plugins/steward-bridge/store/xml.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

// "path=text;" of each element, or the error.
std::string read(std::string_view document) {
    XmlReader reader(document);
    std::string out;
    while (true) {
        const auto element = reader.next();
        if (!element) {
            return element.error().message;
        }
        if (!element.value()) {
            return out;
        }
        out += element.value()->path + "=" + element.value()->text + ";";
    }
}

struct Row {
    std::string name, document, expected;
};

class Xml : public ::testing::TestWithParam<Row> {};

TEST_P(Xml, IsReadOrRefusedWithAReason) {
    const std::string got = read(GetParam().document);
    if (GetParam().expected.starts_with("!")) {
        EXPECT_NE(got.find(GetParam().expected.substr(1)), std::string::npos) << got;
        EXPECT_NE(got.find("offset"), std::string::npos) << got;
    } else {
        EXPECT_EQ(got, GetParam().expected);
    }
}

std::string nested(int depth) {
    std::string open, close;
    for (int i = 0; i < depth; ++i) {
        open += "<a>";
        close += "</a>";
    }
    return open + close;
}

INSTANTIATE_TEST_SUITE_P(
    Documents,
    Xml,
    ::testing::Values(
        Row{"leaf", "<a>x</a>", "a=x;"},
        Row{"children_first", "<a>1<b>2</b>3</a>", "a/b=2;a=13;"},
        Row{"declaration", "<?xml version=\"1.0\" encoding='UTF-8'?>\n<a/>\n", "a=;"},
        Row{"space_in_front", "  \r\n <?xml version=\"1.0\"?><a/>", "a=;"},
        Row{"attributes", "<a xmlns=\"http://x/\" b = 'c>d' ><e f=\"\" /></a >", "a/e=;a=;"},
        Row{"entities",
            "<a>&lt;&amp;&gt;&quot;&apos;&#65;&#x42;&#x20AC;&#x1F600;</a>",
            "a=<&>\"'AB\xE2\x82\xAC\xF0\x9F\x98\x80;"},
        Row{"cdata", "<a><![CDATA[<x>&amp;]]]></a>", "a=<x>&amp;];"},
        Row{"comments", "<!-- a --><a><!-- <b> -->x</a><!---->", "a=x;"},
        Row{"utf8", "<a>\xC3\xA9</a>", "a=\xC3\xA9;"},
        Row{"depth_16", nested(16).substr(0, 3) + nested(16).substr(3), read(nested(16))},
        Row{"depth_17", nested(17), "!16 elements deep"},
        Row{"empty", "", "!ends early"},
        Row{"only_space", " ", "!ends early"},
        Row{"cut_in_text", "<a>x", "!ends early"},
        Row{"cut_in_tag", "<a", "!expected"},
        Row{"cut_in_end", "<a></a", "!expected"},
        Row{"other_end", "<a></b>", "!not open"},
        Row{"end_first", "</a>", "!not open"},
        Row{"two_roots", "<a/><b/>", "!second root"},
        Row{"text_outside", "<a/>x", "!outside"},
        Row{"doctype", "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "!document type"},
        Row{"instruction", "<a><?php ?></a>", "!instruction"},
        Row{"unknown_entity", "<a>&nbsp;</a>", "!unknown entity"},
        Row{"naked_ampersand", "<a>a & b</a>", "!unknown entity"},
        Row{"reference_zero", "<a>&#0;</a>", "!character reference"},
        Row{"reference_surrogate", "<a>&#xD800;</a>", "!character reference"},
        Row{"reference_too_big", "<a>&#99999999999999999999;</a>", "!character reference"},
        Row{"reference_hex_in_decimal", "<a>&#1A;</a>", "!character reference"},
        Row{"control", std::string("<a>\x01</a>"), "!a character"},
        Row{"overlong_utf8", "<a>\xC0\xAF</a>", "!a character"},
        Row{"cut_utf8", "<a>\xE2\x82</a>", "!a character"},
        Row{"cdata_end_in_text", "<a>]]></a>", "!a character"},
        Row{"cdata_open", "<a><![CDATA[x]]</a>", "!CDATA"},
        Row{"comment_open", "<a><!-- x</a>", "!comment"},
        Row{"less_in_attribute", "<a b=\"<\"/>", "!quoted"},
        Row{"attribute_without_value", "<a b/>", "!\"=\""},
        Row{"attributes_joined", "<a b=\"c\"d=\"e\"/>", "!space"},
        Row{"long_name", "<" + std::string(129, 'a') + "/>", "!name"},
        Row{"long_text", "<a>" + std::string(65'537, 'x') + "</a>", "!65536"},
        Row{"long_text_fits",
            "<a>" + std::string(65'536, 'x') + "</a>",
            "a=" + std::string(65'536, 'x') + ";"}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace capstan::steward
