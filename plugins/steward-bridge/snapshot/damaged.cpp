#include "plugins/steward-bridge/snapshot/damaged.hpp"

namespace capstan::steward {

Error damaged(std::string_view object, std::string_view what) {
    std::string text(object);
    text += " is damaged: ";
    text += what;
    text += kDamagedRemedy;
    return Error{Code::invalid, std::move(text), std::chrono::milliseconds{0}};
}

}  // namespace capstan::steward
