#pragma once

namespace tally::app {

// The files report_page.css and report_page.js, which every page contains.
extern const char* const kReportStyle;
extern const char* const kReportScript;

}  // namespace tally::app
