#include "plugins/steward-bridge/store/xml.hpp"

#include <cstdint>

namespace capstan::steward {
namespace {

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Names of object stores are ASCII.
bool is_name_start(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == ':';
}
bool is_name(char c) {
    return is_name_start(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

bool is_char(std::uint32_t code) {
    return code == 0x9 || code == 0xA || code == 0xD || (code >= 0x20 && code <= 0xD7FF) ||
           (code >= 0xE000 && code <= 0xFFFD) || (code >= 0x10000 && code <= 0x10FFFF);
}

std::string to_utf8(std::uint32_t code) {
    std::string out;
    const auto add = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) {
        add(code);
    } else if (code < 0x800) {
        add(0xC0 | code >> 6);
        add(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        add(0xE0 | code >> 12);
        add(0x80 | (code >> 6 & 0x3F));
        add(0x80 | (code & 0x3F));
    } else {
        add(0xF0 | code >> 18);
        add(0x80 | (code >> 12 & 0x3F));
        add(0x80 | (code >> 6 & 0x3F));
        add(0x80 | (code & 0x3F));
    }
    return out;
}

// Length of the character at the front; 0: no character of XML 1.0 in its shortest UTF-8.
std::size_t character_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const std::size_t size = byte(0) < 0x80 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
    if (size > text.size()) {
        return 0;
    }
    std::uint32_t code = size == 1 ? byte(0) : byte(0) & (0xFFu >> (size + 1));
    for (std::size_t i = 1; i < size; ++i) {
        code = code << 6 | (byte(i) & 0x3Fu);
    }
    return is_char(code) && to_utf8(code) == text.substr(0, size) ? size : 0;
}

}  // namespace

Error XmlReader::broken(std::string_view what) const {
    return {Code::invalid, "XML at offset " + std::to_string(at_) + ": " + std::string(what), {}};
}

bool XmlReader::take(std::string_view token) {
    if (!rest().starts_with(token)) {
        return false;
    }
    at_ += token.size();
    return true;
}

bool XmlReader::skip_space() {
    const std::size_t before = at_;
    while (at_ < document_.size() && is_space(document_[at_])) {
        ++at_;
    }
    return at_ != before;
}

Result<std::string_view> XmlReader::name() {
    const std::size_t start = at_;
    if (at_ < document_.size() && is_name_start(document_[at_])) {
        while (at_ < document_.size() && is_name(document_[at_])) {
            ++at_;
        }
    }
    if (at_ == start || at_ - start > kXmlNameBytesMax) {
        return fail(broken("a name of 1 to 128 letters is expected"));
    }
    return document_.substr(start, at_ - start);
}

Result<void> XmlReader::append(std::string_view piece) {
    if (texts_.empty()) {
        return fail(broken("text outside of the root element"));
    }
    if (texts_.back().size() + piece.size() > kXmlTextBytesMax) {
        return fail(broken("the text of one element is over 65536 bytes"));
    }
    texts_.back() += piece;
    return ok();
}

Result<std::string> XmlReader::entity() {
    struct Named {
        std::string_view token, text;
    };
    for (const Named& known :
         {Named{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}}) {
        if (take(known.token)) {
            return std::string(known.text);
        }
    }
    const bool hex = take("&#x");
    if (!hex && !take("&#")) {
        return fail(broken("an unknown entity"));
    }
    constexpr std::string_view digits = "0123456789abcdefABCDEF";
    std::uint32_t code = 0;
    bool any = false;
    for (; at_ < document_.size() && code <= 0x10FFFF; ++at_, any = true) {
        std::size_t value = digits.find(document_[at_]);
        value = value > 15 && value != std::string_view::npos ? value - 6 : value;
        if (value >= (hex ? 16u : 10u)) {
            break;
        }
        code = code * (hex ? 16 : 10) + static_cast<std::uint32_t>(value);
    }
    if (!any || !take(";") || !is_char(code)) {
        return fail(broken("a broken character reference"));
    }
    return to_utf8(code);
}

Result<void> XmlReader::text() {
    while (at_ < document_.size() && document_[at_] != '<') {
        if (document_[at_] == '&') {
            CAPSTAN_TRY(const std::string piece, entity());
            CAPSTAN_TRY(append(piece));
            continue;
        }
        const std::size_t length = character_length(rest());
        if (length == 0 || rest().starts_with("]]>")) {
            return fail(broken("a character that XML does not have there"));
        }
        const std::string_view character = document_.substr(at_, length);
        if (!texts_.empty() || !is_space(character[0])) {
            CAPSTAN_TRY(append(character));
        }
        at_ += length;
    }
    return ok();
}

Result<void> XmlReader::cdata() {
    while (!take("]]>")) {
        const std::size_t length = at_ < document_.size() ? character_length(rest()) : 0;
        if (length == 0) {
            return fail(broken("a CDATA section does not end, or holds no text"));
        }
        CAPSTAN_TRY(append(document_.substr(at_, length)));
        at_ += length;
    }
    return ok();
}

Result<void> XmlReader::skip_comment() {
    const std::size_t end = document_.find("--", at_);
    if (end == std::string_view::npos || document_.substr(end, 3) != "-->") {
        return fail(broken("a comment does not end"));
    }
    at_ = end + 3;
    return ok();
}

// Space in front is accepted: a store sends it while it works on a long request.
Result<void> XmlReader::prologue() {
    started_ = true;
    if (document_.size() > kXmlBytesMax) {
        return fail(Code::too_large, "XML of over 16 MiB");
    }
    skip_space();
    if (!take("<?xml")) {
        return ok();
    }
    bool closed = false;
    CAPSTAN_TRY(attributes(closed));
    return closed || !take("?>") ? Result<void>(fail(broken("the XML declaration does not end")))
                                 : Result<void>(ok());
}

// `closed`: "/" came, the end of an empty element. Stops before ">" or "?".
Result<void> XmlReader::attributes(bool& closed) {
    while (true) {
        const bool space = skip_space();
        if (take("/")) {
            closed = true;
            return ok();
        }
        if (at_ == document_.size() || document_[at_] == '>' || document_[at_] == '?') {
            return ok();
        }
        if (!space) {
            return fail(broken("a space is expected"));
        }
        CAPSTAN_TRY(name());
        skip_space();
        if (!take("=")) {
            return fail(broken("\"=\" is expected"));
        }
        skip_space();
        const char quote = at_ < document_.size() ? document_[at_] : '\0';
        const std::size_t end =
            quote == '"' || quote == '\'' ? document_.find(quote, at_ + 1) : std::string_view::npos;
        if (end == std::string_view::npos ||
            document_.substr(at_, end - at_).find('<') != std::string_view::npos) {
            return fail(broken("a quoted value is expected"));
        }
        at_ = end + 1;
    }
}

Result<void> XmlReader::element_start() {
    if (texts_.empty() && rooted_) {
        return fail(broken("a second root element"));
    }
    if (texts_.size() == kXmlDepthMax) {
        return fail(broken("over 16 elements deep"));
    }
    CAPSTAN_TRY(const std::string_view element, name());
    path_ += (path_.empty() ? "" : "/") + std::string(element);
    texts_.emplace_back();
    rooted_ = true;
    CAPSTAN_TRY(attributes(closing_));
    return take(">") ? Result<void>(ok()) : Result<void>(fail(broken("\">\" is expected")));
}

Result<XmlElement> XmlReader::element_end() {
    const std::size_t slash = path_.rfind('/');
    const std::string own = path_.substr(slash == std::string::npos ? 0 : slash + 1);
    if (!closing_) {
        CAPSTAN_TRY(const std::string_view element, name());
        if (texts_.empty() || element != own) {
            return fail(broken("the end of an element that is not open"));
        }
        skip_space();
        if (!take(">")) {
            return fail(broken("\">\" is expected"));
        }
    }
    closing_ = false;
    XmlElement out{path_, std::move(texts_.back())};
    texts_.pop_back();
    path_.resize(slash == std::string::npos ? 0 : slash);
    return out;
}

Result<std::optional<XmlElement>> XmlReader::next() {
    if (!started_) {
        CAPSTAN_TRY(prologue());
    }
    while (!closing_ && at_ < document_.size()) {
        if (document_[at_] != '<') {
            CAPSTAN_TRY(text());
        } else if (take("<!--")) {
            CAPSTAN_TRY(skip_comment());
        } else if (take("<![CDATA[")) {
            CAPSTAN_TRY(cdata());
        } else if (rest().starts_with("<!") || rest().starts_with("<?")) {
            return fail(broken("a document type or instruction, which no store sends"));
        } else if (take("</")) {
            CAPSTAN_TRY(XmlElement element, element_end());
            return std::optional<XmlElement>(std::move(element));
        } else {
            take("<");
            CAPSTAN_TRY(element_start());
        }
    }
    if (closing_) {
        CAPSTAN_TRY(XmlElement element, element_end());
        return std::optional<XmlElement>(std::move(element));
    }
    if (!rooted_ || !texts_.empty()) {
        return fail(broken("the document ends early"));
    }
    return std::optional<XmlElement>();
}

}  // namespace capstan::steward
