-- The rule that holds whenever nobody writes: counttable.count is the number of visible links of (id, link_type).
local check = {}

local IDS_AT_A_TIME = 20000 -- so that the server's temporary tables stay in memory
local SHOWN_MAX = 10

-- Rows of either side whose counts differ; a side without a row counts as none.
local MISMATCHES = [[
SELECT id, link_type, SUM(counted) AS counted, SUM(visible) AS visible FROM (
  SELECT id, link_type, count AS counted, 0 AS visible FROM counttable WHERE id BETWEEN %d AND %d
  UNION ALL
  SELECT id1, link_type, 0, COUNT(*) FROM linktable WHERE id1 BETWEEN %d AND %d AND visibility = 1
  GROUP BY id1, link_type
) AS both_sides GROUP BY id, link_type HAVING counted <> visible]]

local function highest_id(connection)
  local of_links = connection:query_row("SELECT COALESCE(MAX(id1), 0) FROM linktable FORCE INDEX (id1_type)")
  local of_counts = connection:query_row("SELECT COALESCE(MAX(id), 0) FROM counttable")
  return math.max(tonumber(of_links), tonumber(of_counts))
end

-- Errors: when one count is wrong, or when there is nothing to check.
function check.counts(connection)
  local mismatches, last = 0, highest_id(connection)
  assert(last > 0, "there is nothing to check")
  for from = 0, last, IDS_AT_A_TIME do
    local to = from + IDS_AT_A_TIME - 1
    local found = connection:query(string.format(MISMATCHES, from, to, from, to))
    for _ = 1, found.nrows do
      local row = found:fetch_row()
      mismatches = mismatches + 1
      if mismatches <= SHOWN_MAX then
        print(string.format("MISMATCH id %s, link_type %s: counted %s, visible %s", row[1], row[2], row[3], row[4]))
      end
    end
  end
  local links = connection:query_row("SELECT SUM(count) FROM counttable")
  print(string.format("checked: %s visible links, %d mismatches", links, mismatches))
  if mismatches > 0 then error("counttable and linktable disagree") end
end

return check
