-- The Payment transaction (clause 2.5): a customer pays; 15 % pay at a warehouse that is not theirs.
local customers = require("customers")

local payment = { name = "payment", cards = 10 }

local REMOTE_PERCENT = 15
local NEEDED = "c_credit, c_first, c_middle, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, " ..
   "c_credit_lim, c_discount, c_balance"

function payment.prepare(session)
   session:prepare("pay_warehouse", "UPDATE warehouse SET w_ytd = w_ytd + ? / 100 WHERE w_id = ?", "ii")
   session:prepare("pay_district", "UPDATE district SET d_ytd = d_ytd + ? / 100 WHERE d_w_id = ? AND d_id = ?", "iii")
   local paid = "UPDATE customer SET c_balance = c_balance - ? / 100, c_ytd_payment = c_ytd_payment + ? / 100, " ..
      "c_payment_cnt = c_payment_cnt + 1"
   local key = " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"
   session:prepare("pay_customer", paid .. key, "iiiii")
   session:prepare("pay_bad_customer", paid .. ", c_data = LEFT(CONCAT(?, c_data), 500)" .. key, "iisiii")
   session:prepare("insert_history", "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, " ..
      "h_amount, h_data) VALUES (?, ?, ?, ?, ?, NOW(), ? / 100, ?)", "iiiiiis")
end

function payment.input(terminal)
   local random = terminal.random
   local w, d = terminal:warehouse(), terminal:district()
   local customer_w, customer_d = w, d
   if random:chance(REMOTE_PERCENT) then
      customer_w, customer_d = terminal:other_warehouse(w), terminal:district()
   end
   return {
      w = w,
      d = d,
      customer = customers.choose(terminal, customer_w, customer_d),
      cents = random:between(100, 500000),
   }
end

-- Pays as a customer of bad credit: what was paid goes to the front of C_DATA, as clause 2.5.2.2 has it.
local function pay_bad_customer(session, input, c)
   local chosen = input.customer
   local note = ("%d %d %d %d %d %.2f|"):format(c, chosen.d, chosen.w, input.d, input.w, input.cents / 100)
   session:row("SELECT c_data FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", chosen.w, chosen.d, c)
   session:execute("pay_bad_customer", input.cents, input.cents, note, chosen.w, chosen.d, c)
end

function payment.run(session, input)
   local w, d, cents, chosen = input.w, input.d, input.cents, input.customer
   session:execute("begin")
   session:execute("pay_warehouse", cents, w)
   local w_name = session:row("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse " ..
      "WHERE w_id = %d", w)
   session:execute("pay_district", cents, w, d)
   local d_name = session:row("SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district " ..
      "WHERE d_w_id = %d AND d_id = %d", w, d)
   local c, credit = customers.find(session, chosen, NEEDED, " FOR UPDATE")
   if credit == "BC" then
      pay_bad_customer(session, input, tonumber(c))
   else
      session:execute("pay_customer", cents, cents, chosen.w, chosen.d, c)
   end
   session:execute("insert_history", c, chosen.d, chosen.w, d, w, cents, w_name .. "    " .. d_name)
   session:execute("commit")
   return true
end

return payment
