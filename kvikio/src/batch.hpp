// Many reads as one operation of RaskIO: a thread collects what it starts, and hands it over at once.
#pragma once

#include "read.hpp"

namespace shim {

/// Takes the read if this thread is collecting.
bool collect(std::unique_ptr<Reading>& reading);

}  // namespace shim
