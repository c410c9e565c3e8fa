-- The consistency conditions of clause 3.3.2, for one warehouse each, and the number of rows that never changes.
--
-- Each query counts violations: 0 is right. Condition 11 holds in the specification for the initial population only
-- (orders without new orders are the 2,100 delivered at the start); here the deliveries since then are added, which
-- C_DELIVERY_CNT counts.
local schema = require("schema")

local consistency = {}

local DISTRICT_OF = "%s_w_id = d_w_id AND %s_d_id = d_id"

local function of_district(prefix)
   return (DISTRICT_OF):gsub("%%s", prefix)
end

-- What order lines a customer has to pay, and what was paid, are the same in conditions 10 and 12.
local DELIVERED = [[(SELECT o_d_id, o_c_id, SUM(ol_amount) AS amount FROM orders JOIN order_line
   ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
   WHERE o_w_id = $w AND ol_delivery_d IS NOT NULL GROUP BY o_d_id, o_c_id) AS delivered
   ON o_d_id = c_d_id AND o_c_id = c_id]]
local PAID = [[(SELECT h_c_d_id, h_c_id, SUM(h_amount) AS amount FROM history WHERE h_c_w_id = $w
   GROUP BY h_c_d_id, h_c_id) AS paid ON h_c_d_id = c_d_id AND h_c_id = c_id]]

local CONDITIONS = {
   [[SELECT COUNT(*) FROM warehouse WHERE w_id = $w
     AND w_ytd <> (SELECT SUM(d_ytd) FROM district WHERE d_w_id = w_id)]],
   [[SELECT COUNT(*) FROM district WHERE d_w_id = $w
     AND (d_next_o_id - 1 <> (SELECT MAX(o_id) FROM orders WHERE ]] .. of_district("o") .. [[)
     OR d_next_o_id - 1 <> (SELECT MAX(no_o_id) FROM new_order WHERE ]] .. of_district("no") .. [[))]],
   [[SELECT COUNT(*) FROM (SELECT MAX(no_o_id) - MIN(no_o_id) + 1 - COUNT(*) AS gap FROM new_order
     WHERE no_w_id = $w GROUP BY no_d_id) AS districts WHERE gap <> 0]],
   [[SELECT COUNT(*) FROM district WHERE d_w_id = $w
     AND (SELECT SUM(o_ol_cnt) FROM orders WHERE ]] .. of_district("o") .. [[)
     <> (SELECT COUNT(*) FROM order_line WHERE ]] .. of_district("ol") .. [[)]],
   [[SELECT COUNT(*) FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
     WHERE o_w_id = $w AND (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)]],
   [[SELECT COUNT(*) FROM orders LEFT JOIN (SELECT ol_d_id, ol_o_id, COUNT(*) AS n FROM order_line WHERE ol_w_id = $w
     GROUP BY ol_d_id, ol_o_id) AS line_counts ON ol_d_id = o_d_id AND ol_o_id = o_id
     WHERE o_w_id = $w AND NOT o_ol_cnt <=> n]],
   [[SELECT COUNT(*) FROM order_line LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
     WHERE ol_w_id = $w AND (o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL))]],
   [[SELECT COUNT(*) FROM warehouse WHERE w_id = $w
     AND w_ytd <> (SELECT SUM(h_amount) FROM history WHERE h_w_id = $w)]],
   [[SELECT COUNT(*) FROM district JOIN (SELECT h_d_id, SUM(h_amount) AS amount FROM history WHERE h_w_id = $w
     GROUP BY h_d_id) AS paid ON h_d_id = d_id WHERE d_w_id = $w AND d_ytd <> amount]],
   [[SELECT COUNT(*) FROM customer LEFT JOIN ]] .. DELIVERED .. [[ LEFT JOIN ]] .. PAID .. [[
     WHERE c_w_id = $w AND c_balance <> IFNULL(delivered.amount, 0) - IFNULL(paid.amount, 0)]],
   [[SELECT COUNT(*) FROM district WHERE d_w_id = $w
     AND (SELECT COUNT(*) FROM orders WHERE ]] .. of_district("o") .. [[)
     - (SELECT COUNT(*) FROM new_order WHERE ]] .. of_district("no") .. [[)
     <> $delivered + (SELECT SUM(c_delivery_cnt) FROM customer WHERE ]] .. of_district("c") .. [[)]],
   [[SELECT COUNT(*) FROM customer LEFT JOIN ]] .. DELIVERED .. [[
     WHERE c_w_id = $w AND c_balance + c_ytd_payment <> IFNULL(delivered.amount, 0)]],
}

-- Number of rows that no transaction changes; without it an empty table would satisfy the conditions.
local CONSTANT_ROWS = {
   item = { "SELECT COUNT(*) FROM item", "items", 1 },
   stock = { "SELECT COUNT(*) FROM stock WHERE s_w_id = $w", "items", 1 },
   customer = { "SELECT COUNT(*) FROM customer WHERE c_w_id = $w", "customers", schema.DISTRICTS },
}

local function value_of(session, query, w, sizes)
   query = query:gsub("%$(%a+)", { w = w, delivered = sizes.delivered })
   return tonumber((session:row((query:gsub("%%", "%%%%")))))
end

-- Returns texts that say what is wrong in warehouse w, none when all is right.
function consistency.violations(session, w, sizes)
   local found = {}
   for number, query in ipairs(CONDITIONS) do
      local count = value_of(session, query, w, sizes)
      if count ~= 0 then
         found[#found + 1] = ("condition %d is violated %d times"):format(number, count)
      end
   end
   for name, rule in pairs(CONSTANT_ROWS) do
      local count, wanted = value_of(session, rule[1], w, sizes), sizes[rule[2]] * rule[3]
      if count ~= wanted then
         found[#found + 1] = ("%s has %d rows instead of %d"):format(name, count, wanted)
      end
   end
   return found
end

return consistency
