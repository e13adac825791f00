// A small strict reader of XML as object stores answer with: elements, text, entities; no DTD.
//
// It gives each element when it ends, children before parents. Attributes are checked and skipped.
// The document is borrowed. Memory: the open elements. Limits are named below; everything else that
// is no well-formed UTF-8 XML 1.0 is invalid, with the offset.
#pragma once

#include "capstan/error.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

inline constexpr std::size_t kXmlBytesMax = 16u * 1024 * 1024;
inline constexpr std::size_t kXmlDepthMax = 16;
inline constexpr std::size_t kXmlNameBytesMax = 128;
inline constexpr std::size_t kXmlTextBytesMax = 64u * 1024;  // of one element

struct XmlElement {
    std::string path;  // names from the root: "ListBucketResult/Contents/Key"
    std::string text;  // directly in it, entities resolved
};

class XmlReader {
public:
    explicit XmlReader(std::string_view document) : document_(document) {}

    // The element that ends next; nullopt: the document has ended well. An error is final.
    Result<std::optional<XmlElement>> next();

private:
    Result<void> prologue();
    Result<void> element_start();
    Result<XmlElement> element_end();
    Result<void> attributes(bool& closed);
    Result<void> text();
    Result<void> cdata();
    Result<void> skip_comment();
    Result<std::string> entity();
    Result<std::string_view> name();
    Result<void> append(std::string_view piece);
    bool skip_space();
    bool take(std::string_view token);
    std::string_view rest() const { return document_.substr(at_); }
    Error broken(std::string_view what) const;

    const std::string_view document_;
    std::size_t at_{0};
    bool started_{false};
    bool rooted_{false};   // the root element was seen
    bool closing_{false};  // <a/>: its end is due
    std::string path_;     // of the open elements
    std::vector<std::string> texts_;
};

}  // namespace capstan::steward
