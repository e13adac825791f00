// The one place where Beast is compiled (BOOST_BEAST_SEPARATE_COMPILATION).
#include <boost/beast/src.hpp>
